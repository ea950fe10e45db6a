"""What waits in a lane of a partition, in order, and what is known of it before it is handed out."""

from collections.abc import Collection, Sequence
from typing import Protocol

from headrace.runtime.partitions.buffer import Buffer, Records, Span
from headrace.runtime.partitions.chunk import Chunk, ChunkRecord
from headrace.runtime.partitions.key import PartitionKey, PartitionLog
from headrace.runtime.partitions.lane import Plain
from headrace.runtime.partitions.offsets.batch_plan import BatchPlan
from headrace.runtime.partitions.offsets.failed_records import FailedRecords
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.offsets.pending_produces import PendingProduces, UnwrittenRecords
from headrace.runtime.wire.records import WireRecord


class Books(Protocol):
    """What the lanes of a partition share, and what they tell it: an AssignedPartition."""

    @property
    def key(self) -> PartitionKey: ...
    @property
    def log(self) -> PartitionLog: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def failed(self) -> FailedRecords: ...
    @property
    def plan(self) -> BatchPlan: ...
    @property
    def unacked(self) -> Collection[int]: ...
    @property
    def to_hand_out(self) -> int: ...
    @property
    def left_in_flight(self) -> int: ...

    @property
    def held(self) -> PendingProduces: ...
    @property
    def unwritten(self) -> UnwrittenRecords: ...

    is_paused: bool

    def settle(self, first: int, end: int) -> None: ...
    def note_unacked(self, firsts: Sequence[int]) -> None: ...
    def note_failed(self, units: Sequence[Span], reason: str, among: int) -> list[int]: ...
    def note_suspected(self, units: Sequence[Span]) -> None: ...


class WaitingLane(Plain):
    """Keeps the part of Lane that is about its next records. What waits is open in the ledger."""

    __slots__ = ("_books", "buffer", "fetched_at", "waiting_since")

    def __init__(self, books: Books, buffer: Buffer) -> None:
        self.buffer = buffer
        self.waiting_since = 0.0  # on the caller's clock: when the first record to hand out came
        self.fetched_at = 0.0  # on the same clock: when the last one did
        self._books = books

    # ---- what is so

    @property
    def key(self) -> PartitionKey:
        """Its partition's."""
        return self._books.key

    @property
    def log(self) -> str:  # type: ignore[override]  # a constant of those that have none
        """Its partition's."""
        return self._books.log.stamp

    @property
    def next_offset(self) -> int | None:
        """The lowest that waits, of all parts."""
        return self.buffer.next_offset

    @property
    def next_chunk(self) -> Chunk | None:
        """What the next record to hand out is part of, undecoded."""
        return head.chunk if isinstance(head := self.buffer.head, ChunkRecord) else None

    @property
    def is_head_refused(self) -> bool:
        """The next record must not be delivered."""
        failed, offset = self._books.failed, self.buffer.next_offset
        return bool(failed) and offset is not None and failed.is_refused(offset)

    @property
    def goes_alone(self) -> bool:
        """It was running when its worker died, may be to blame, and is to be delivered."""
        failed, offset = self._books.failed, self.buffer.next_offset
        if not failed or offset is None or failed.is_refused(offset):
            return False
        return failed.batch_limit(offset) is not None

    @property
    def has_failed(self) -> bool:  # type: ignore[override]  # of those that share its books too
        """As Lane says."""
        return bool(self._books.failed)

    def attempt(self, record: WireRecord) -> int:
        """The number of this delivery of the record, from 1."""
        failed = self._books.failed
        return failed.attempt(self.buffer.first_offsets([record])[0]) if failed else 1

    def first_offsets(self, records: Records) -> Sequence[int]:
        """The first offset that each stands for."""
        return self.buffer.first_offsets(records)

    def spans(self, records: Records) -> Sequence[Span]:
        """The offsets that these stand for, which follow each other."""
        return self.buffer.spans(records)

    # ---- what happens to it

    def note_arrival(self, now: float) -> None:
        """Records are about to be added."""
        self.fetched_at = now
        if not self.buffer.count:
            self.waiting_since = now

    def put(self, records: Records) -> None:
        """They were fetched, after all others."""
        self.buffer.append(records)

    def put_open(self, records: Records, ledger: Ledger) -> None:
        """They were fetched, after all others, and some of them are settled in `ledger`."""
        self.buffer.append_open(records, ledger)

    def drop_settled(self, end: int) -> None:
        """Something below `end` was settled, which may wait here."""
        next_offset = self.buffer.next_offset
        if next_offset is not None and next_offset < end:
            self.buffer.keep_open(self._books.ledger)
