"""A lane: records that one worker runs in order, as dispatcher, allocators and workers see them."""

from collections.abc import Sequence
from itertools import count
from typing import Any, Literal, Protocol

from headrace.runtime.partitions.chunk import Chunk
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.reply import Reply

CutShort = Literal["late", "died"]


"""Why a handler doesn't end by itself: it runs past eventTimeout, or its worker has died."""


_ids = count()


def next_lane_id() -> int:
    """Never used before by this processor, as far as its workers remember."""
    return next(_ids) % 2**32


class Offered(Protocol):
    """What a lane is to those who choose the next one for a worker."""

    @property
    def whole(self) -> "Lane":
        """What workers are offered and told of: itself, or where each key has a lane, that of them all."""

    @property
    def is_deliverable(self) -> bool:
        """Whether the next record may be handed out now."""

    @property
    def goes_alone(self) -> bool:
        """The next record may kill its worker: nothing else is to run beside it."""

    @property
    def next_chunk(self) -> Chunk | None:
        """What the next record is part of, where it is undecoded."""

    def ready(self) -> "Lane":
        """It may be handed out: what to offer to workers for that."""

    def next_part(self) -> "Lane":
        """What a worker gets now: itself, or of a whole the lane of one key."""


class Lane(Offered, Protocol):
    """Its dispatcher alone calls the methods, on its event loop. None of them blocks.

    All that is in flight of it is at one worker. After a failure, and after a recall, it gives out nothing
    until the last one in flight is settled or back: only then is it known what comes first.
    """

    @property
    def id(self) -> int:
        """On the wire."""

    @property
    def key(self) -> PartitionKey:
        """Where its records come from, for handlers, people and static allocation."""

    @property
    def log(self) -> str:
        """The stamp of the log that its offsets are of; empty where it is of none."""

    @property
    def source(self) -> int:
        """Which of the triggers that share its worker it is of; 0: of the one that has them."""

    @property
    def epoch(self) -> int:
        """Rises with each failure: what a worker still has of an older one comes back unstarted."""

    @property
    def worker_index(self) -> int | None:
        """Where its records went last."""

    @property
    def in_flight_count(self) -> int:
        """Records that are at that worker."""

    @property
    def is_recalled(self) -> bool:
        """Some of them were asked to come back."""

    @property
    def is_head_refused(self) -> bool:
        """The next record must not be delivered: its dispatcher decides what becomes of it."""

    @property
    def has_failed(self) -> bool:
        """Some of its records may be at another attempt than the first."""

    def attempt(self, record: WireRecord) -> int:
        """The number of this delivery of the record, from 1."""

    def take(self, limit: int, byte_limit: int) -> Sequence[WireRecord]:
        """The next records to hand out: at least one, at most `limit`, in order of offset."""

    def first_offsets(self, records: Sequence[WireRecord]) -> Sequence[int]:
        """The first offset that each stands for: its own, but for a range of offsets."""

    def spans(self, records: Sequence[WireRecord]) -> Sequence[tuple[int, int]]:
        """The offsets `[first, end)` that these stand for, which follow each other."""

    def on_sent(self, worker_index: int) -> None:
        """What was taken last goes to this worker."""

    def on_recalled(self) -> None:
        """What hasn't started of it was asked to come back."""

    def on_replied(self, record: WireRecord, reply: Reply) -> None:
        """The handler has answered to this one, where the policy wants that; its outcome follows."""

    def on_reply_part(self, data: bytes, *, is_last: bool) -> None:
        """More of that answer, which said that there is."""

    def on_cut_short(self, why: CutShort) -> None:
        """The handler of what runs of it won't end by itself. That has failed, which follows."""

    def on_settled(self, records: Sequence[WireRecord]) -> None:
        """These were in flight, follow each other, and succeeded."""

    def on_unacked(self, records: Sequence[WireRecord]) -> None:
        """These were in flight, went well, and stay open until they are acked."""

    def on_failed(self, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """These were in flight, and failed in a call with `among` records, 1 where each is to blame itself.

        They go on to `on_returned`.
        """

    def on_suspected(self, records: Sequence[WireRecord]) -> None:
        """A worker died by itself with these started. They go on to `on_returned`."""

    def on_returned(self, records: Sequence[WireRecord]) -> None:
        """These were in flight, and have no outcome: they are to be handed out again."""


class Plain:
    """The part of a Lane that is of no interest where nobody waits for an answer, nor shares a worker.

    And which is whole by itself.
    """

    source = 0
    log = ""
    has_failed = True

    @property
    def goes_alone(self) -> bool:
        """As Lane says."""
        return False

    @property
    def whole(self) -> Any:
        """As Lane says."""
        return self

    def ready(self) -> Any:
        """As Lane says."""
        return self

    def next_part(self) -> Any:
        """As Lane says."""
        return self

    def on_replied(self, record: WireRecord, reply: Reply) -> None:
        """As Lane says."""

    def on_reply_part(self, data: bytes, *, is_last: bool) -> None:
        """As Lane says."""

    def on_cut_short(self, why: CutShort) -> None:
        """As Lane says."""


Records = Sequence[WireRecord]


class EventLane(Plain):
    """Keeps Lane. Its user derives from it, writes the methods at the end, and calls `put`."""

    next_chunk: Chunk | None = None
    is_head_refused = False

    def __init__(self, key: PartitionKey) -> None:
        """The topic in `key` has a colon in it: no handler can mean a record of a stream by that."""
        self.id = next_lane_id()
        self.key = key
        self.epoch = 0
        self.worker_index: int | None = None
        self.in_flight_count = 0
        self.is_recalled = False
        self.attempts = 1
        """Of the event that it has, this one included."""
        self._waiting: WireRecord | None = None
        self._failure: str | None = None

    # ---- for its user

    def put(self, record: WireRecord) -> None:
        """The next event, where it has none. `submit` follows."""
        self._waiting, self._failure = record, None

    def drop(self) -> bool:
        """Don't hand out what waits; whether something did."""
        waited, self._waiting = self._waiting is not None, None
        return waited

    # ---- as Lane says

    @property
    def is_deliverable(self) -> bool:
        """Whether something waits."""
        return self._waiting is not None

    def attempt(self, record: WireRecord) -> int:
        """Counted by its user."""
        return self.attempts

    def take(self, limit: int, byte_limit: int) -> Records:
        """The one that waits."""
        assert self._waiting is not None, "it is deliverable"
        record, self._waiting = self._waiting, None
        self.in_flight_count = 1
        return (record,)

    def first_offsets(self, records: Records) -> Sequence[int]:
        """Its number."""
        return [record.offset for record in records]

    def spans(self, records: Records) -> Sequence[tuple[int, int]]:
        """Its number, as a span."""
        return [(record.offset, record.offset + 1) for record in records]

    def on_sent(self, worker_index: int) -> None:
        """It is at this worker."""
        self.worker_index = worker_index

    def on_recalled(self) -> None:
        """It was asked to come back, if it hasn't started."""
        self.is_recalled = True

    def on_settled(self, records: Records) -> None:
        """The handler has returned."""
        self._leave()
        self.on_ended(None)

    def on_unacked(self, records: Records) -> None:
        """Without a partition there is nothing to ack."""
        self.on_settled(records)

    def on_failed(self, records: Records, reason: str, among: int) -> None:
        """`on_returned` follows."""
        self.epoch += 1
        self._failure = reason

    def on_suspected(self, records: Records) -> None:
        """It is never handed out together with others."""

    def on_returned(self, records: Records) -> None:
        """It has failed, or hasn't started, or its worker was killed for something else."""
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
        """Its handler has: with success, or why not. It is idle, and may be given the next one."""

    def on_came_back(self, record: WireRecord) -> None:
        """Without an outcome. It is idle; `put` has it handed out again."""
