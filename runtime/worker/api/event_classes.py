"""The event class of each trigger of a worker, by what its function and its environment want events to be."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.api import sdk
from headrace.runtime.worker.api.event import (
    Lazy,
    LazyEvent,
    LazyPerPartition,
    partition_event_class,
)
from headrace.runtime.worker.api.partition_view import PartitionView
from headrace.runtime.worker.api.sdk import TriggerInfo

_OFF = ("no", "false", "disable", "disabled")


class _Unset:
    """An attribute that isn't there before somebody sets it: a non-data descriptor."""

    def __get__(self, event: object | None, owner: type) -> "_Unset":
        if event is None:
            return self
        raise AttributeError("an event of Nuclio's has no key; event.record_key is the record's")


class _WithoutKey:
    """An event without a key: mlrun's flows set one where there is none, and else take it for their own."""

    __slots__ = ()
    key = _Unset()


class InBytes:
    """An event with NUCLIO_PYTHON_DECODE_EVENT_STRINGS off: what is text elsewhere is bytes."""

    __slots__ = ()
    content_type = method = url = type = type_version = version = b""
    # Methods in all but form.
    topic: LazyPerPartition[bytes] = LazyPerPartition(lambda event: event._partition.topic.encode())  # noqa: SLF001
    trigger: LazyPerPartition[sdk.TriggerInfo] = LazyPerPartition(
        lambda event: _in_bytes(event._partition.trigger)  # noqa: SLF001
    )


class _StreamInBytes(InBytes):
    """The same for events of streams."""

    __slots__ = ()
    path: LazyPerPartition[bytes] = LazyPerPartition(lambda event: event.topic)
    id: Lazy[bytes] = Lazy(lambda event: b"%b/%d/%d" % (event.topic, event.shard_id, event.offset))
    headers: Lazy[dict[bytes, bytes | None]] = Lazy(
        lambda event: {name.encode(errors="surrogateescape"): value for name, value in event.header_list}
    )


def _in_bytes(trigger: sdk.TriggerInfo) -> Any:
    info: Any = sdk.TriggerInfo
    return info(trigger.kind.encode(), trigger.name.encode())


def nuclio_event_class(event: Any, *, has_key: bool) -> Any:
    """Return an event class as this worker's environment and its function want it.

    A class that isn't a stream's names, as `in_bytes`, the class that goes before it where all text is bytes.
    """
    is_off = os.environ.get("NUCLIO_PYTHON_DECODE_EVENT_STRINGS", "").lower() in _OFF
    in_bytes = getattr(event, "in_bytes", _StreamInBytes)
    parts = (*([] if has_key else [_WithoutKey]), *([in_bytes] if is_off else []))
    if not parts:
        return event
    name = "".join(part.__name__ for part in (event, *parts))
    made = type(name, (*parts, event), {"__slots__": (), "__module__": __name__})
    return globals().setdefault(name, made)  # where pickle looks for it


@dataclass(frozen=True, slots=True)
class EventSource:
    """A trigger that has records in this worker, and the events that they are made into."""

    trigger: TriggerInfo
    new_event: Callable[[Any, PartitionView, int], LazyEvent]
    wants_replies: bool

    def for_partition(self, view: PartitionView) -> "EventSource":
        """Return the same for the records of one partition, whose events are quicker to make."""
        return replace(self, new_event=partition_event_class(self.new_event, view))


def load_event_sources(start: WorkerStart, load: Callable[[str, str], Any]) -> Sequence[EventSource]:
    """Return the worker's own trigger, then those that share the worker. Raises what `load` raises.

    `load` imports an object from what it is, for messages, and `module:name`.
    """
    return [
        EventSource(
            TriggerInfo(kind, name),
            nuclio_event_class(load("event", event), has_key=start.has_event_keys),
            wants_replies,
        )
        for kind, name, event, wants_replies in (
            (start.trigger_kind, start.trigger_name, start.event, start.wants_replies),
            *start.guests,
        )
    ]
