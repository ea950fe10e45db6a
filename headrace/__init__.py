"""Headrace: a serverless function trigger runtime for Python.

Here are the types that a handler may be annotated with:

    from headrace import Context, Event

    def handler(context: Context, event: Event) -> None:
        context.logger.info(f"{event.topic}/{event.shard_id}/{event.offset}")
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.runtime.worker.api.context import Context
    from headrace.runtime.worker.api.event import StreamEvent as Event
    from headrace.runtime.worker.api.sdk import QualifiedOffset, Response
else:
    _PLACES = {
        "Context": ("headrace.runtime.worker.api.context", "Context"),
        "Event": ("headrace.runtime.worker.api.event", "StreamEvent"),
        "QualifiedOffset": ("headrace.runtime.worker.api.sdk", "QualifiedOffset"),
        "Response": ("headrace.runtime.worker.api.sdk", "Response"),
    }

    def __getattr__(name: str) -> object:
        """Found when it is asked for: importing headrace loads nothing."""
        from importlib import import_module

        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, name_there = _PLACES[name]
        found = globals()[name] = getattr(import_module(module), name_there)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACES})


__all__ = ["Context", "Event", "QualifiedOffset", "Response"]
