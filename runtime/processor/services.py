"""Addresses that the functions of a run need: of services, started here if asked for, and of each other."""

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.kafka.names import DEFAULT_PORT
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.stopping import Stopping
from headrace.runtime.processor.trigger_classes import trigger_class
from headrace.runtime.web.addresses import host_in_url
from headrace.triggers.base import EmbeddedNeeds, Listening

logger = logging.getLogger(__name__)

Services = Mapping[str, tuple[str, ...]]
"""Addresses that override the functions' own, by service; empty where their own hold."""
_EMBEDDED_PARTITIONS = 8


@asynccontextmanager
async def running_services(
    functions: Sequence[FunctionSpec], options: RunOptions, stopping: Stopping
) -> AsyncIterator[Services]:
    """Start the services that the options ask for; they stop when the context ends."""
    # A replica gets the addresses of services that its supervisor has started as options.
    services = {"kafka": options.brokers, "v3io": options.v3io}
    async with AsyncExitStack() as stack:
        if options.embedded_kafka:
            kafka = _kafka(_sources(functions, "kafka"), stopping)
            # The topics are made before any trigger asks for them.
            services["kafka"] = (await stack.enter_async_context(kafka),)
        if options.embedded_v3io:
            v3io = _v3io(_sources(functions, "v3io"), stopping)
            services["v3io"] = (await stack.enter_async_context(v3io),)
        yield services


def at_services(function: FunctionSpec, services: Services) -> FunctionSpec:
    """Return the function with triggers that read at these services."""
    return replace(function, triggers=tuple(_at(spec, services) for spec in function.triggers))


def _at(spec: TriggerSpec, services: Services) -> TriggerSpec:
    needs = _needs(spec)
    addresses = services.get(needs.service, ())
    return replace(spec, settings=needs.at(addresses)) if addresses else spec


def _sources(functions: Iterable[FunctionSpec], service: str) -> dict[str, int]:
    """Return the topics or streams that the functions use there, with the partitions that each gets."""
    needs = [_needs(spec) for function in functions for spec in function.triggers]
    names = (name for it in needs if it.service == service for name in it.topics)
    return dict.fromkeys(names, _EMBEDDED_PARTITIONS)


def _needs(spec: TriggerSpec) -> EmbeddedNeeds:
    return trigger_class(spec.kind).embedded(spec.settings)


@asynccontextmanager
async def _kafka(topics: Mapping[str, int], stopping: Stopping) -> AsyncIterator[str]:
    logger.info("starting embedded Kafka")
    kafka = EmbeddedKafka(port=DEFAULT_PORT, may_move=True)
    with stopping.killing(kafka.kill):  # from before it starts until it has stopped: no Java is left behind
        async with kafka:
            await kafka.create_topics(topics)
            message = "embedded Kafka at %s until this run ends, with the topics %s"
            logger.info(message, kafka.bootstrap, ", ".join(topics))
            for topic in list(topics)[:1]:
                line = "lines of stdin go there by: headrace kafka produce --brokers %s --topic %s"
                logger.info(line, kafka.bootstrap, topic)
            yield kafka.bootstrap


@asynccontextmanager
async def _v3io(streams: Mapping[str, int], stopping: Stopping) -> AsyncIterator[str]:
    # A development server, which few runs ask for: nothing of the core imports it.
    from headrace.runtime.embedded.v3io.server import EmbeddedV3io

    v3io = EmbeddedV3io()
    with stopping.killing(v3io.kill):
        async with v3io:
            await v3io.create_streams(streams)
            message = "embedded v3io at %s until this run ends, with the streams %s"
            logger.info(message, v3io.url, ", ".join(streams))
            yield v3io.url


# ---- each other


def with_addresses(functions: Sequence[FunctionSpec]) -> list[FunctionSpec]:
    """Return the functions, each with the addresses of all that may be called."""
    found = {function.name: address for function in functions if (address := _address(function))}
    return [replace(function, function_addresses=found) for function in functions]


def _address(function: FunctionSpec) -> str:
    """Return where a function is called; empty where it isn't.

    Of several triggers, the first with a port of its own counts.
    """
    listening = list(_listening(function.triggers))
    # A port of 0 is chosen when the trigger starts, too late for other functions to know.
    first = min(listening, key=lambda settings: settings.port == 0, default=None)
    return f"{host_in_url(first.host)}:{first.port}" if first else ""


def _listening(triggers: Sequence[TriggerSpec]) -> Iterator[Listening]:
    for spec in triggers:
        is_called = trigger_class(spec.kind).delivery(spec.settings, spec.fields).wants_replies
        if is_called and isinstance(spec.settings, Listening):
            yield spec.settings
