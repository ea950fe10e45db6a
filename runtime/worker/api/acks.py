"""Explicit acks and nacks, in a worker process: from any thread and any event loop."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from headrace.runtime.wire.outcomes import Ack, Nack, encode_ack, encode_acked, encode_nack, is_another_log
from headrace.runtime.wire.produce import NO_LANE
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.api.partition_view import PartitionView
from headrace.runtime.worker.api.record_id import (
    CURRENT_RECORD,
    CURRENT_RECORD_ID,
    RecordId,
    RecordOffset,
    log_of,
)
from headrace.runtime.worker.api.sdk import QualifiedOffset

logger = logging.getLogger("headrace.handler")

_current_thread = threading.get_ident
_NO_LOGS: Mapping[int, str] = {}


class WorkerAcks:
    """Sends acks, and remembers those of records that wait in this worker: they need not be handled.

    An ack of the very record that the handler is in goes into the slot, a word of shared memory, and from
    there with the next frame. Any other one is a frame of its own.
    """

    def __init__(self, send: Callable[[bytes], None], slot: ProgressSlot, start: WorkerStart) -> None:
        self._send = send
        self._slot = slot
        self._main_thread = threading.get_ident()
        self.running: PartitionView | None = None
        """Partition of the run that is being handled, where records are handled one by one (main thread)."""
        self._fast: PartitionView | None = None
        """The same, where an ack of the record that runs needs no more than a word in the slot."""
        self._fast_owned: Mapping[str, Mapping[int, str]] | None = None
        """The partitions that were owned when `_fast` was found."""
        self._batch: PartitionView | None = None
        self._mode = start.ack_mode
        self._has_warned = False
        self._takes_acks = start.takes_acks
        self._is_cumulative = start.is_cumulative
        self._topic_aliases = start.topic_aliases
        self._owned: Mapping[str, Mapping[int, str]] = {}
        self._is_forked = False
        self._partitions: dict[tuple[str, int], PartitionView] = {}

    def record_id(self) -> RecordId | None:
        """Return the record that a handler is in, where they are handled one by one (main thread)."""
        view = self.running
        if view is None or view.record is None:
            return None
        return RecordId(view.topic, view.partition, view.record.offset)

    def producer(self) -> tuple[int, int, WireRecord | None]:
        """Return lane, offset and record that the caller works for; NO_LANE and None where there is none.

        In a batch, lane and offset are those of one of its records, and the record itself is None.
        """
        record: WireRecord | None = None
        if (current := CURRENT_RECORD_ID.get()) is not None:
            view, offset = self._partitions.get((current.topic, current.partition)), current.offset
            record = CURRENT_RECORD.get()
        else:
            view = self.running or self._batch
            entered = None if view is None else view.record
            offset = -1 if entered is None else entered.offset
            record = None if self.running is None else entered
        return (NO_LANE, -1, record) if view is None else (view.lane_id, offset, record)

    def own(self, by_topic: Mapping[str, Mapping[str, str]]) -> None:
        """Set the partitions that this replica has now, with the stamps of their logs (link thread)."""
        self._owned = {
            topic: {int(partition): log for partition, log in logs.items()}
            for topic, logs in by_topic.items()
        }

    def enter(self, view: PartitionView | None) -> None:
        """Say that a run is about to be handled record by record (main thread).

        `view` is None for a run whose partition is gone: it is empty.
        """
        self.running = view
        # Each OWNED frame makes a new mapping, so the same object says that nothing has changed since.
        owned = self._fast_owned = self._owned
        self._fast = None
        if view is not None and self._takes_acks and not self._is_cumulative:
            # Neither an alias of the topic nor the partition's owner has to be looked up for each ack.
            is_fast = view.topic not in self._topic_aliases and view.partition in owned.get(view.topic, ())
            self._fast = view if is_fast else None

    def leave(self) -> None:
        """Say that the run is over: acks belong to no running record from now on (main thread)."""
        self.running = self._fast = None

    def enter_batch(self, view: PartitionView) -> None:
        """Say that a batch is about to be handled, whose first run is of this partition (main thread)."""
        self._batch = view

    def leave_batch(self) -> None:
        """Say that the batch is over (main thread)."""
        self._batch = None

    def add_lane(self, view: PartitionView) -> None:
        """Take in a partition whose records may come to this worker (link thread)."""
        key = view.topic, view.partition
        if (last := self._partitions.get(key)) is not None:
            # An offset that is acked later may be of the log before this one.
            view.follow(last)
        self._partitions[key] = view

    def abandon(self) -> None:
        """Stop sending, in a process that the handler has forked: its frames would go amid its parent's."""
        self._is_forked, self._fast = True, None

    def ack(self, named: Any, *, is_through: bool) -> bool:
        """Send an ack, and return whether it may count: False where it is known that it won't.

        `named` is what has compile_explicit_ack_message(), as a QualifiedOffset and an event have. False
        where this replica doesn't own the partition, where its topic is known to have been made anew since,
        and, with a warning the first time, where the record's trigger acks by returning only. Raises
        RuntimeError where no ack of this process can count, ValueError for an offset inside a range.
        """
        if (
            (fast := self._fast) is not None  # what most handlers do, with what is known of the run
            and (
                named.source_log == fast.log
                if type(named) is RecordOffset
                else type(named) is QualifiedOffset and named.source_log is None
            )
            and named.topic == fast.topic
            and named.partition == fast.partition
            and type(named.offset) is int
            and not is_through
            and self._fast_owned is self._owned
            and self._note(fast, named.offset)
        ):
            return True
        topic, partition, offset = self._place_of(named)
        if self._is_forked:  # not False: that says to try again, where the record comes back
            raise RuntimeError(
                f"explicit_ack({topic}/{partition}/{offset}): in a process that the handler has forked, which"
                " can't ack; ack in the worker"
            )
        current_log = self._owned.get(topic, _NO_LOGS).get(partition)
        if not self._takes_acks or current_log is None:
            self._warn_once("explicit_ack", topic, partition, offset)
            return False
        view = self._partitions.get((topic, partition))
        log = _log_of(named, offset, view, current_log)
        is_of_another = is_another_log(log, current_log)
        if is_of_another or (view is not None and log != view.log):
            view = None  # another record than the one that may run or wait here
        # An ack that reaches back may settle records that the view knows nothing of: it goes as a frame.
        reaches_back = is_through or self._is_cumulative
        if view is not None and not reaches_back and self._note(view, offset):
            return True  # nothing to tell the view: it is in that record, which has nothing behind it
        first, last = (view.open_range if view else None) or (0, -1)
        if first <= offset < last:
            raise ValueError(
                f"explicit_ack({topic}/{partition}/{offset}): lies inside the range of offsets"
                f" {first} to {last}; ack its last one, event.offset"
            )
        # Also what won't count: the processor says why.
        self._send(encode_ack(Ack(topic, partition, offset, is_through, log=log)))
        # Only now: a kill between the two must not leave a record that is skipped here and open there.
        if view is not None:
            view.acked(offset, is_through=reaches_back)
        return not is_of_another

    def nack(self, named: Any, reason: str) -> bool:
        """Send a nack, and return whether it may count, as `ack` does. Raises RuntimeError as `ack` does."""
        topic, partition, offset = self._place_of(named)
        if self._is_forked:
            raise RuntimeError(
                f"explicit_nack({topic}/{partition}/{offset}): in a process that the handler has forked,"
                " which can't nack; nack in the worker"
            )
        current_log = self._owned.get(topic, _NO_LOGS).get(partition)
        if not self._takes_acks or current_log is None:
            self._warn_once("explicit_nack", topic, partition, offset)
            return False
        log = _log_of(named, offset, self._partitions.get((topic, partition)), current_log)
        self._send(encode_nack(Nack(topic, partition, offset, reason, log)))
        return not is_another_log(log, current_log)

    def _place_of(self, named: Any) -> tuple[str, int, int]:
        topic, partition, offset = record_place(named)
        return self._topic_aliases.get(topic, topic), partition, offset

    def _warn_once(self, call: str, topic: str, partition: int, offset: int) -> None:
        """Warn, the first time, of an ack to a trigger that acks by returning only."""
        is_of_ours = self._mode == "disable" and (topic, partition) in self._partitions
        if not self._has_warned and (not self._takes_acks or is_of_ours):
            self._has_warned = True
            logger.warning(
                "%s(%s/%d/%d) does nothing, nor will later ones: explicitAckMode is %s, so records are"
                " acked when the handler returns; set it to enable or explicitOnly",
                call,
                topic,
                partition,
                offset,
                self._mode,
            )

    def flush(self, behind: bytes = b"") -> None:
        """Send what is in the slot, and a frame behind it (main thread)."""
        span = self._slot.acks.read()
        if frames := (encode_acked(*span) if span else b"") + behind:
            self._send(frames)
        if span:  # only now: a kill between the two has it taken in twice, which harms nothing
            self._slot.acks.clear()

    def _note(self, view: PartitionView, offset: int) -> bool:
        """Note an ack in the slot; False unless the handler is in that record, and this is its thread."""
        if view is not self.running or offset != view.entered or _current_thread() != self._main_thread:
            return False
        if not self._slot.acks.add(view.lane_id, offset):
            self.flush()
            self._slot.acks.add(view.lane_id, offset)
        return True


def _log_of(named: Any, offset: int, view: PartitionView | None, current_log: str) -> str:
    """Return the stamp of the log that an offset is of: as it says itself, or by what was handled here.

    `current_log` is the log that its partition has now, where that is known.
    """
    return log_of(named) or (current_log if view is None else view.log_of(offset, current_log))


def record_place(named: Any) -> tuple[str, int, int]:
    """Return topic, partition and offset of what is acked: of an offset, or of an event."""
    if not isinstance(named, QualifiedOffset):
        attributes = named.compile_explicit_ack_message()["attributes"]
        named = QualifiedOffset(attributes["topic"], attributes["partition"], attributes["offset"])
    topic: str | bytes = named.topic  # bytes with NUCLIO_PYTHON_DECODE_EVENT_STRINGS off
    return topic.decode() if isinstance(topic, bytes) else topic, int(named.partition), int(named.offset)
