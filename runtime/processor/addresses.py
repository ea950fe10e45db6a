"""Where the functions of a run are called, by what their triggers' settings say."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.runtime.config.function import FunctionSpec, TriggerSpec
from headrace.runtime.processor.admin.hosts import reachable
from headrace.runtime.processor.kinds import trigger_class
from headrace.triggers.base import Listening


def with_addresses(functions: Sequence[FunctionSpec]) -> list[FunctionSpec]:
    """The functions, each of which knows all that may be called."""
    found = {function.name: address for function in functions if (address := _address(function))}
    return [replace(function, function_addresses=found) for function in functions]


def _address(function: FunctionSpec) -> str:
    """Of several the first one with a port of its own; empty for a function that isn't called."""
    listening = list(_listening(function.triggers))
    first = min(listening, key=lambda settings: settings.port == 0, default=None)
    return f"{reachable(first.host)}:{first.port}" if first else ""


def _listening(triggers: Sequence[TriggerSpec]) -> Iterator[Listening]:
    for spec in triggers:
        is_called = trigger_class(spec.kind).delivery(spec.settings, spec.fields).wants_replies
        if is_called and isinstance(spec.settings, Listening):
            yield spec.settings
