"""Three brokers that are one cluster: its topics, and its groups, outlive one of them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest import mock

from headrace.runtime.embedded.kafka import broker as embedded_kafka
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.format import copy_format, kept_checkpoint
from headrace.runtime.embedded.kafka.process import BrokerJava
from headrace.runtime.embedded.kafka.properties import broker_settings
from headrace.runtime.embedded.kafka.security import BrokerSecurity
from headrace.runtime.embedded.ports import HOST, choose_ports

_COUNT = 3
_CLUSTER = "hThreeBrokersOfOneTest"


@contextmanager
def three_brokers(loop: asyncio.AbstractEventLoop) -> Iterator[list[EmbeddedKafka]]:
    """All serve. The main thread has to live as long as they do."""
    ports = {found["PLAINTEXT"]: found for found in (choose_ports(0, []) for _ in range(_COUNT))}
    nodes = {port: str(number) for number, port in enumerate(ports, start=1)}
    voters = ",".join(f"{nodes[port]}@{HOST}:{ports[port]['CONTROLLER']}" for port in ports)

    def chosen(port: int, _: Sequence[str]) -> dict[str, int]:
        return ports[port]

    def settings(given: Mapping[str, int], security: BrokerSecurity) -> dict[str, str]:
        found = broker_settings(given, security)
        found |= {key: str(_COUNT) for key in found if key.endswith(".replication.factor")}
        found |= {key: "2" for key in found if key.endswith(".min.isr")}
        own = {"node.id": nodes[given["PLAINTEXT"]], "controller.quorum.voters": voters}
        return found | own | {"default.replication.factor": str(_COUNT), "min.insync.replicas": "2"}

    brokers = [EmbeddedKafka(port=port) for port in ports]
    with (
        mock.patch.object(embedded_kafka, "choose_ports", chosen),
        mock.patch.object(embedded_kafka, "broker_settings", settings),
        mock.patch.object(embedded_kafka, "format_records", _format),
    ):
        loop.run_until_complete(_each(brokers))
    try:
        yield brokers
    finally:
        for each in brokers:
            each.kill()


async def _each(brokers: Sequence[EmbeddedKafka]) -> None:
    """None of them serves before the others do."""
    await asyncio.gather(*(each.start() for each in brokers))


def _format(java: BrokerJava, settings: Mapping[str, str], _users: Sequence[str]) -> None:
    """From what another embedded broker has left: one has run before."""
    copy_format(kept_checkpoint(java.jars), java.folder / "records", settings["node.id"], _CLUSTER)
