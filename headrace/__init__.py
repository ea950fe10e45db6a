"""Headrace: a serverless function trigger runtime for Python.

The names here are types that a handler may be annotated with:

    from headrace import Context, Event

    def handler(context: Context, event: Event) -> None:
        context.logger.info(f"{event.topic}/{event.shard_id}/{event.offset}")

`Context` is the type of `context`, `Event` of one record of a stream; `QualifiedOffset` names a record in an
explicit ack, and a `Response` may be returned.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.runtime.worker.api.context import Context
    from headrace.runtime.worker.api.event import StreamEvent as Event
    from headrace.runtime.worker.api.sdk import QualifiedOffset, Response
else:
    _MODULES = {
        "Context": ("headrace.runtime.worker.api.context", "Context"),
        "Event": ("headrace.runtime.worker.api.event", "StreamEvent"),
        "QualifiedOffset": ("headrace.runtime.worker.api.sdk", "QualifiedOffset"),
        "Response": ("headrace.runtime.worker.api.sdk", "Response"),
    }

    def __getattr__(name: str) -> object:
        """Import a name when it is asked for: importing headrace loads nothing."""
        from importlib import import_module

        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, name_in_it = _MODULES[name]
        found = globals()[name] = getattr(import_module(module), name_in_it)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})


__all__ = ["Context", "Event", "QualifiedOffset", "Response"]
