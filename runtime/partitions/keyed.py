"""A partition whose records may overtake each other: `ordering` key or none. Many lanes over one ledger."""

from collections.abc import Callable, Collection, Hashable
from heapq import heappop, heappush
from typing import Literal

from headrace.runtime.partitions.buffer import Records
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.record_buffer import RecordBuffer
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.waiting_lane import Books
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.undecoded import UndecodableRecord

KeyedOrdering = Literal["key", "none"]


class KeyLane(PartitionLane):
    """The records of one key, for as long as some are here: in order, at one worker at a time.

    What fails holds up its key and no other.
    """

    __slots__ = ("_name", "_whole")

    def __init__(self, books: Books, whole: "KeyedLanes", name: Hashable) -> None:
        super().__init__(books, RecordBuffer())
        self._whole = whole
        self._name = name

    @property
    def whole(self) -> "KeyedLanes":
        """That of its partition."""
        return self._whole

    @property
    def is_deliverable(self) -> bool:
        """Whether the next record may be handed out now. Nothing goes behind what is in flight."""
        is_free = not self.in_flight_count and self.state is PartitionState.ACTIVE
        return is_free and self.buffer.count > 0

    def ready(self) -> "KeyedLanes":
        """Its turn comes by its next offset."""
        self._whole.enqueue(self)
        return self._whole

    def drop_settled(self, end: int) -> None:
        """As PartitionLane; it may be over by that."""
        super().drop_settled(end)
        self._end_if_idle()

    def take_again(self, record: WireRecord) -> None:
        """It was settled, and is open again: as if it were in flight still, about to fail."""
        self._whole.out_count += 1
        self.in_flight_count += 1

    def _handed_out(self, records: Records) -> Records:
        self._whole.out_count += len(records)
        return super()._handed_out(records)

    def _left(self, count: int) -> None:
        self._whole.out_count -= count
        super()._left(count)
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self.is_idle:
            self._whole.parts_by_name.pop(self._name, None)


class KeyedLanes(PartitionLane):
    """Stands for the lanes of all keys: workers are offered this one, and given that of the oldest record.

    It holds no record itself.
    """

    __slots__ = ("_name_of", "_queue", "parts_by_name")
    out_count = 0

    def __init__(self, books: Books, ordering: KeyedOrdering) -> None:
        super().__init__(books, RecordBuffer())
        self.parts_by_name: dict[Hashable, KeyLane] = {}
        self._name_of: Callable[[WireRecord], Hashable] = _key_of if ordering == "key" else _offset_of
        # By next offset. Some are out of date: they are dropped when they come up.
        self._queue: list[tuple[int, int, KeyLane]] = []

    @property
    def parts(self) -> Collection[PartitionLane]:
        """One for each key that has a record here."""
        return tuple(self.parts_by_name.values())

    @property
    def next_offset(self) -> int | None:
        """The lowest that waits."""
        waiting = (lane.buffer.next_offset for lane in self.parts_by_name.values())
        return min((offset for offset in waiting if offset is not None), default=None)

    @property
    def is_idle(self) -> bool:
        """No record of it is held here."""
        return not self.parts_by_name

    @property
    def is_deliverable(self) -> bool:
        """Whether some record may be handed out now; where none should, the one that holds up the commit."""
        if self.state is not PartitionState.ACTIVE or (offset := self._first()) is None:
            return False
        books = self._books
        return books.to_hand_out > 0 or (offset == books.ledger.committable and books.left_in_flight > 0)

    @property
    def goes_alone(self) -> bool:
        """Its next part does. It is deliverable."""
        return self._queue[0][2].goes_alone

    def enqueue(self, lane: KeyLane) -> None:
        """It is deliverable."""
        offset = lane.buffer.next_offset
        assert offset is not None, "something waits"
        heappush(self._queue, (offset, lane.id, lane))

    def next_part(self) -> KeyLane:
        """That of the lowest offset. It is deliverable."""
        return heappop(self._queue)[2]

    def put(self, records: Records) -> None:
        """Each to the lane of its key."""
        for record in records:
            lane = self.lane_of(record)
            lane.put([record])
            if lane.buffer.count == 1 and lane.is_deliverable:
                self.enqueue(lane)

    def lane_of(self, record: WireRecord) -> KeyLane:
        """Of its key, for as long as a record of that is here."""
        name = self._name_of(record)
        if (lane := self.parts_by_name.get(name)) is None:
            lane = self.parts_by_name[name] = KeyLane(self._books, self, name)
        return lane

    def put_open(self, records: Records, ledger: Ledger) -> None:
        """Those that are open."""
        self.put([record for record in records if ledger.is_open(record.offset)])

    def revoke(self) -> None:
        """No more of any key. Those that something is still to be decided of are found among the parts."""
        super().revoke()
        for lane in self.parts_by_name.values():
            lane.revoke()

    def _first(self) -> int | None:
        queue = self._queue
        while queue and not (queue[0][2].is_deliverable and queue[0][2].buffer.next_offset == queue[0][0]):
            heappop(queue)
        return queue[0][0] if queue else None


def _key_of(record: WireRecord) -> Hashable:
    """What has no key, or none that can be read, has no order."""
    key = None if isinstance(record, UndecodableRecord) else record.key
    return record.offset if key is None else key


def _offset_of(record: WireRecord) -> Hashable:
    return record.offset
