"""A lane: an ordered queue of records that one worker runs, as dispatcher, allocators and workers see it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import count
from typing import Any, Literal

from headrace.runtime.partitions.chunk import Chunk, Records
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.interval_set import Span
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.reply import Reply

CutShort = Literal["late", "died"]
"""Why a handler doesn't end by itself: it runs past eventTimeout, or its worker has died."""

_ids = count()


def next_lane_id() -> int:
    """Return an id that this processor has not used before, as far as its workers remember."""
    return next(_ids) % 2**32


class Lane(ABC):
    """A queue of records of which all that is in flight is at one worker, in order.

    Its dispatcher alone calls the methods, on its event loop. None of them blocks. After a failure, and after
    a recall, it gives out nothing until the last record in flight is settled or back: only then is it known
    what comes first. The defaults are those of a lane whose events nobody waits for, at workers of its own
    trigger.
    """

    id: int
    """The lane's number on the wire."""
    key: PartitionKey
    """The source of its records, as handlers, people and static allocation know it."""
    log: str = ""
    """The stamp of the log that its offsets are of; empty if the lane has no log."""
    source: int = 0
    """Number of its trigger among those that share its workers; 0: the trigger that has the workers."""
    epoch: int
    """A number that rises with each failure: records of an older epoch come back from workers unstarted."""
    worker_index: int | None
    """The worker to which its records went last."""
    in_flight_count: int
    """How many records are at that worker."""
    is_recalled: bool
    """Whether some of them were asked to come back."""

    # ---- what allocators ask

    @property
    def whole(self) -> Any:
        """The lane that workers are offered and told of: itself, or of a key's lane that of all keys."""
        return self

    @property
    @abstractmethod
    def is_deliverable(self) -> bool:
        """Whether the next record may be handed out now."""

    @property
    def goes_alone(self) -> bool:
        """Whether the next record may kill its worker: nothing else is to run beside it."""
        return False

    @property
    def next_chunk(self) -> Chunk | None:
        """The chunk that the next record is part of; None if it is decoded."""
        return None

    def ready(self) -> Any:
        """Return the lane to offer to workers, as a record of this one may be handed out."""
        return self

    def next_part(self) -> Any:
        """Return the lane that a worker gets now: itself, or of a whole the lane of one key."""
        return self

    # ---- what is handed out

    @property
    def is_head_refused(self) -> bool:
        """Whether the next record must not be delivered: its dispatcher decides what becomes of it."""
        return False

    @property
    def has_failed(self) -> bool:
        """Whether some records may be at another attempt than the first."""
        return True

    @abstractmethod
    def attempt(self, record: WireRecord) -> int:
        """Return the number of this delivery of the record, from 1."""

    @abstractmethod
    def take(self, limit: int, byte_limit: int) -> Records:
        """Remove and return the next records to hand out: 1 to `limit`, in order of offset."""

    @abstractmethod
    def first_offsets(self, records: Records, /) -> Sequence[int]:
        """Return the first offset that each record stands for: its own, but for a range of offsets."""

    @abstractmethod
    def spans(self, records: Records, /) -> Sequence[Span]:
        """Return the offsets `[first, end)` that these records stand for, which follow each other."""

    def on_sent(self, worker_index: int) -> None:
        """Note that the records that were taken last go to this worker."""
        self.worker_index = worker_index

    def on_recalled(self) -> None:
        """Note that a worker was asked to give back the records that haven't started."""
        self.is_recalled = True

    # ---- what becomes of it

    def on_replied(self, record: WireRecord, reply: Reply) -> None:  # noqa: B027  # few care
        """Take the handler's answer to a record, if the policy asks for answers; its outcome follows."""

    def on_reply_part(self, data: bytes, *, is_last: bool) -> None:  # noqa: B027  # few care
        """Take more of an answer that said that there is more."""

    def on_cut_short(self, why: CutShort) -> None:  # noqa: B027  # few care
        """Note that the handler that runs won't end by itself: its record's failure follows."""

    @abstractmethod
    def on_settled(self, records: Records) -> None:
        """Settle records that were in flight, follow each other, and succeeded."""

    @abstractmethod
    def on_unacked(self, records: Records) -> None:
        """Note that records that were in flight went well, and stay open until they are acked."""

    @abstractmethod
    def on_failed(self, records: Records, reason: str, among: int) -> None:
        """Note that records in flight failed in a call with `among` records: 1 if each is to blame by itself.

        They go on to `on_returned`.
        """

    @abstractmethod
    def on_suspected(self, records: Records) -> None:
        """Note that a worker's process ended with these records started, and that each may be to blame.

        They go on to `on_returned`.
        """

    @abstractmethod
    def on_returned(self, records: Records) -> None:
        """Take back records that were in flight, and have no outcome: they are to be handed out again."""


class EventLane(Lane):
    """A lane of one event at a time, which no partition holds and nobody commits: a request, a firing.

    Its user derives from it, writes the methods at the end, and calls `put`.
    """

    def __init__(self, key: PartitionKey) -> None:
        """Make an idle lane.

        The topic in `key` has a colon in it: no handler can mean a stream's record by that.
        """
        self.id = next_lane_id()
        self.key = key
        self.epoch = 0
        self.worker_index = None
        self.in_flight_count = 0
        self.is_recalled = False
        self.attempts = 1
        """Which attempt at its event comes next, or runs, from 1."""
        self._waiting: WireRecord | None = None
        self._failure: str | None = None

    # ---- for its user

    def put(self, record: WireRecord) -> None:
        """Give an idle lane its next event. `submit` follows."""
        self._waiting, self._failure = record, None

    def drop(self) -> bool:
        """Drop the event that waits; return whether one did."""
        waited, self._waiting = self._waiting is not None, None
        return waited

    # ---- for its dispatcher

    @property
    def is_deliverable(self) -> bool:
        """Whether an event waits."""
        return self._waiting is not None

    def attempt(self, record: WireRecord) -> int:
        """Return the number of this delivery, which its user counts."""
        return self.attempts

    def take(self, limit: int, byte_limit: int) -> Records:
        """Remove and return the event that waits."""
        assert self._waiting is not None, "it is deliverable"
        record, self._waiting = self._waiting, None
        self.in_flight_count = 1
        return (record,)

    def first_offsets(self, records: Records) -> Sequence[int]:
        """Return the event's number."""
        return [record.offset for record in records]

    def spans(self, records: Records) -> Sequence[Span]:
        """Return the event's number, as a span."""
        return [(record.offset, record.offset + 1) for record in records]

    def on_settled(self, records: Records) -> None:
        """End the event: its handler has returned."""
        self._leave()
        self.on_ended(None)

    def on_unacked(self, records: Records) -> None:
        """End the event: without a partition there is nothing to ack."""
        self.on_settled(records)

    def on_failed(self, records: Records, reason: str, among: int) -> None:
        """Keep the reason for `on_returned`, which follows."""
        self.epoch += 1
        self._failure = reason

    def on_suspected(self, records: Records) -> None:
        """Do nothing: an event is in no batch, and comes back by `on_returned`, which follows.

        With maxConcurrency events of other lanes may have run beside it.
        """

    def on_returned(self, records: Records) -> None:
        """End an event that failed, or tell `on_came_back` of one that has no outcome."""
        self._leave()
        if self._failure is not None:
            self.on_ended(self._failure)
        else:
            self.on_came_back(records[0])

    def _leave(self) -> None:
        self.in_flight_count = 0
        self.is_recalled = False

    # ---- for whoever derives from it

    def on_ended(self, failure: str | None) -> None:
        """Note that the handler has ended: with success, or why not.

        The lane is idle, and may get the next event.
        """

    def on_came_back(self, record: WireRecord) -> None:
        """Note that the event came back without an outcome. `put` has it handed out again."""
