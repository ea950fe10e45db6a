"""QualifiedOffsets that know which log they are of: a topic made anew has the same offsets again."""

from typing import Any

from headrace.runtime.worker.api import sdk


class RecordOffset(sdk.QualifiedOffset):
    """What `QualifiedOffset.from_event` makes here of a stream's record.

    Its `vars` are the SDK's. A pickle of it is one of the SDK's own, with the log beside: it can be read
    wherever that package is.
    """

    __slots__ = ("source_log",)
    source_log: str | None

    def __init__(self, topic: str, partition: int, offset: int, source_log: str) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.source_log = source_log

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickles and copies."""
        named = (self.topic, self.partition, self.offset)
        return sdk.QualifiedOffset, named, {"source_log": self.source_log}


def from_event(event: Any) -> sdk.QualifiedOffset:
    """As the SDK's, and of the event's log."""
    topic = event.topic or event.path  # as the SDK has it
    try:
        return RecordOffset(topic, event.shard_id, event.offset, event._partition.log)  # noqa: SLF001  # ours
    except AttributeError:  # it is none of ours, or was pickled by an older release
        return sdk.QualifiedOffset(topic, event.shard_id, event.offset)


def log_of(named: Any) -> str | None:
    """The stamp of the log that an event, or an offset of one, is of; None where it doesn't say."""
    if (view := getattr(named, "_partition", None)) is not None:
        return getattr(view, "log", None)  # one that was pickled by an older release has none
    return getattr(named, "source_log", None)


# On the SDK's class, not on one in its place: handlers import that from wherever they like. Those that are
# made of a topic and numbers know no log.
sdk.QualifiedOffset.from_event = staticmethod(from_event)  # type: ignore[method-assign]
sdk.QualifiedOffset.source_log = None
