"""Explicit acks, in a worker process: from any thread and any event loop."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from headrace.runtime.wire import records as wire
from headrace.runtime.wire.produce import NO_LANE
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import Ack, Nack, WireRecord
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.api.event import PartitionView
from headrace.runtime.worker.api.offsets import RecordOffset, log_of
from headrace.runtime.worker.api.record_id import CURRENT_RECORD, CURRENT_RECORD_ID, RecordId
from headrace.runtime.worker.api.sdk import QualifiedOffset

logger = logging.getLogger("headrace.handler")

_this_thread = threading.get_ident
_NONE: Mapping[int, str] = {}


class WorkerAcks:
    """Sends acks, and remembers those of records that wait in this worker: they are not to be handled.

    What a handler says of the very record that it is in goes to the slot, and from there with the next frame.
    """

    def __init__(self, send: Callable[[bytes], None], slot: ProgressSlot, start: WorkerStart) -> None:
        self._send = send
        self._slot = slot
        self._main_thread = threading.get_ident()
        self.running: PartitionView | None = None
        """Of the run that is being handled, where records are handled one by one (main thread)."""
        self._plain: PartitionView | None = None
        """The same, where an ack of the record that runs needs no more than a word in the slot."""
        self._plain_owned: Mapping[str, Mapping[int, str]] | None = None
        """What was owned when that was found."""
        self.batch: PartitionView | None = None
        """Of the first run of the batch that is being handled (main thread)."""
        self._mode = start.ack_mode
        self._has_warned = False
        self._takes_acks = start.takes_acks
        self._is_cumulative = start.is_cumulative
        self._topic_aliases = start.topic_aliases
        self._owned: Mapping[str, Mapping[int, str]] = {}
        self._is_forked = False
        self._partitions: dict[tuple[str, int], PartitionView] = {}

    def place(self) -> RecordId | None:
        """Of the record that a handler is in, where they are handled one by one (main thread)."""
        view = self.running
        if view is None or view.record is None:
            return None
        return RecordId(view.topic, view.partition, view.record.offset)

    def producer(self) -> tuple[int, int, WireRecord | None]:
        """Lane and offset of the record that the caller works for, NO_LANE where that is none, and itself.

        Of a batch, one of its records, and none itself.
        """
        record: WireRecord | None = None
        if (place := CURRENT_RECORD_ID.get()) is not None:
            view, offset = self._partitions.get((place.topic, place.partition)), place.offset
            record = CURRENT_RECORD.get()
        else:
            view = self.running or self.batch
            entered = None if view is None else view.record
            offset = -1 if entered is None else entered.offset
            record = None if self.running is None else entered
        return (NO_LANE, -1, record) if view is None else (view.lane_id, offset, record)

    def own(self, by_topic: Mapping[str, Mapping[str, str]]) -> None:
        """The partitions that this replica has now, and of which logs, where that is known (link thread)."""
        self._owned = {topic: {int(it): log for it, log in logs.items()} for topic, logs in by_topic.items()}

    def enter(self, view: PartitionView | None) -> None:
        """A run of it is about to be handled, record by record; None: an empty one (main thread)."""
        self.running = view
        owned = self._plain_owned = self._owned
        self._plain = None
        if view is not None and self._takes_acks and not self._is_cumulative:
            is_plain = view.topic not in self._topic_aliases and view.partition in owned.get(view.topic, ())
            self._plain = view if is_plain else None

    def leave(self) -> None:
        """It has been (main thread)."""
        self.running = self._plain = None

    def add_lane(self, view: PartitionView) -> None:
        """Records of it may come to this worker (link thread)."""
        key = view.topic, view.partition
        if (last := self._partitions.get(key)) is not None:
            view.follow(last)
        self._partitions[key] = view

    def abandon(self) -> None:
        """In a process that the handler has forked: its frames would go amid its parent's."""
        self._is_forked, self._plain = True, None

    def ack(self, named: Any, *, is_through: bool) -> bool:
        """Whether it is on its way: False where this replica is known not to own the partition.

        `named`: what has compile_explicit_ack_message(), as a QualifiedOffset and an event have. False, with
        a warning the first time, where the record's trigger acks by returning only; False as well where its
        topic is known to have been made anew since. Raises RuntimeError where no ack of this process can
        count, ValueError for an offset inside a range.
        """
        if (
            (plain := self._plain) is not None  # what most handlers do, with what is known of the run
            and (
                named.source_log == plain.log
                if type(named) is RecordOffset
                else type(named) is QualifiedOffset and named.source_log is None
            )
            and named.topic == plain.topic
            and named.partition == plain.partition
            and type(named.offset) is int
            and not is_through
            and self._plain_owned is self._owned
            and self._note(plain, named.offset)
        ):
            return True
        topic, partition, offset = self._place_of(named)
        if self._is_forked:  # not False: that says to try again, where the record comes back
            raise RuntimeError(
                f"explicit_ack({topic}/{partition}/{offset}): in a process that the handler has forked, which"
                " can't ack; ack in the worker"
            )
        current_log = self._owned.get(topic, _NONE).get(partition)
        if not self._takes_acks or current_log is None:
            self._warn_once("explicit_ack", topic, partition, offset)
            return False
        view = self._partitions.get((topic, partition))
        log = _log_of(named, offset, view, current_log)
        is_of_another = wire.is_another_log(log, current_log)
        if is_of_another or (view is not None and log != view.log):
            view = None  # another record than the one that may run or wait here
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
        self._send(wire.encode_ack(Ack(topic, partition, offset, is_through, log=log)))
        # Only now: a kill between the two must not leave a record that is skipped here and open there.
        if view is not None:
            view.acked(offset, is_through=reaches_back)
        return not is_of_another

    def nack(self, named: Any, reason: str) -> bool:
        """Whether it is on its way: False as `ack` says. Raises RuntimeError as `ack` does."""
        topic, partition, offset = self._place_of(named)
        if self._is_forked:
            raise RuntimeError(
                f"explicit_nack({topic}/{partition}/{offset}): in a process that the handler has forked,"
                " which can't nack; nack in the worker"
            )
        current_log = self._owned.get(topic, _NONE).get(partition)
        if not self._takes_acks or current_log is None:
            self._warn_once("explicit_nack", topic, partition, offset)
            return False
        log = _log_of(named, offset, self._partitions.get((topic, partition)), current_log)
        self._send(wire.encode_nack(Nack(topic, partition, offset, reason, log)))
        return not wire.is_another_log(log, current_log)

    def _place_of(self, named: Any) -> tuple[str, int, int]:
        topic, partition, offset = record_place(named)
        return self._topic_aliases.get(topic, topic), partition, offset

    def _warn_once(self, call: str, topic: str, partition: int, offset: int) -> None:
        """Where its trigger acks by returning only."""
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
        if frames := (wire.encode_acked(*span) if span else b"") + behind:
            self._send(frames)
        if span:  # only now: a kill between the two has it taken in twice, which harms nothing
            self._slot.acks.clear()

    def _note(self, view: PartitionView, offset: int) -> bool:
        """Into the slot, if the handler is in that record and this is its thread; whether it is."""
        if view is not self.running or offset != view.entered or _this_thread() != self._main_thread:
            return False
        if not self._slot.acks.add(view.lane_id, offset):
            self.flush()
            self._slot.acks.add(view.lane_id, offset)
        return True


def _log_of(named: Any, offset: int, view: PartitionView | None, current_log: str) -> str:
    """The stamp of the log that it is of: as it says itself, or else by what was handled here.

    `current_log`: of its partition, where that is known.
    """
    return log_of(named) or (current_log if view is None else view.log_of(offset, current_log))


def record_place(named: Any) -> tuple[str, int, int]:
    """Topic, partition and offset of what is acked."""
    if not isinstance(named, QualifiedOffset):
        said = named.compile_explicit_ack_message()["attributes"]
        named = QualifiedOffset(said["topic"], said["partition"], said["offset"])
    topic: str | bytes = named.topic  # bytes with NUCLIO_PYTHON_DECODE_EVENT_STRINGS off
    return topic.decode() if isinstance(topic, bytes) else topic, int(named.partition), int(named.offset)
