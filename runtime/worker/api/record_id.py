"""Names of records: which one a task works for, and offsets that know which log they are of."""

from contextvars import ContextVar
from typing import Any, NamedTuple

from headrace.runtime.worker.api import sdk


class RecordId(NamedTuple):
    """Topic, partition and offset of a record."""

    topic: str
    partition: int
    offset: int


CURRENT_RECORD: ContextVar[Any] = ContextVar("headrace_headers", default=None)
"""The record that CURRENT_RECORD_ID names: its trace headers go along with what is produced for it."""
CURRENT_RECORD_ID: ContextVar[RecordId | None] = ContextVar("headrace_record", default=None)
"""The record that the current task works for.

Set in tasks that a handler has created, and where records run concurrently; elsewhere the slot says which
record runs. So log lines and messages of a task belong to its own record, not to whichever runs meanwhile.
"""


class RecordOffset(sdk.QualifiedOffset):
    """A QualifiedOffset that knows which log it is of: `QualifiedOffset.from_event` makes these here.

    A topic that was made anew has the same offsets again, in another log. `vars` has what the SDK's has. A
    pickle of it is one of the SDK's own, with the log beside: it can be read wherever that package is.
    """

    __slots__ = ("source_log",)
    source_log: str | None

    def __init__(self, topic: str, partition: int, offset: int, source_log: str) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.source_log = source_log

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickles and copies are made of."""
        named = (self.topic, self.partition, self.offset)
        return sdk.QualifiedOffset, named, {"source_log": self.source_log}


def from_event(event: Any) -> sdk.QualifiedOffset:
    """Return the offset of an event, as the SDK does, with the log that it is of."""
    topic = event.topic or event.path  # as the SDK has it
    try:
        return RecordOffset(topic, event.shard_id, event.offset, event._partition.log)  # noqa: SLF001  # ours
    except AttributeError:  # it is none of ours, or was pickled by an older release
        return sdk.QualifiedOffset(topic, event.shard_id, event.offset)


def log_of(named: Any) -> str | None:
    """Return the stamp of the log that an event, or an offset of one, is of; None where it doesn't say."""
    if (view := getattr(named, "_partition", None)) is not None:
        return getattr(view, "log", None)  # one that was pickled by an older release has none
    return getattr(named, "source_log", None)


# On the SDK's class, not on one in its place: handlers import that from wherever they like. Those that are
# made of a topic and numbers know no log.
sdk.QualifiedOffset.from_event = staticmethod(from_event)  # type: ignore[method-assign]
sdk.QualifiedOffset.source_log = None
