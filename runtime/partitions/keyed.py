"""Keyed lanes over one ledger, for records that may overtake each other: `ordering` key or none."""

from collections.abc import Callable, Collection, Hashable
from heapq import heappop, heappush
from typing import ClassVar, Literal

from headrace.runtime.partitions.chunk import Records
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.partition_offsets import PartitionOffsets
from headrace.runtime.partitions.record_buffer import RecordBuffer
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.undecoded import UndecodableRecord

KeyedOrdering = Literal["key", "none"]


class KeyLane(PartitionLane):
    """The records of one key, for as long as some are here: in order, at one worker at a time.

    A failure holds up its key and no other. With `ordering: none` each record is a key.
    """

    __slots__ = ("_name", "_whole")

    def __init__(self, offsets: PartitionOffsets, whole: "KeyedLanes", name: Hashable) -> None:
        super().__init__(offsets, RecordBuffer())
        self._whole = whole
        self._name = name

    @property
    def whole(self) -> "KeyedLanes":
        """The lane of its partition."""
        return self._whole

    @property
    def is_deliverable(self) -> bool:
        """Whether the next record may be handed out now. Nothing goes behind what is in flight."""
        is_free = not self.in_flight_count and self.state is PartitionState.ACTIVE
        return is_free and self.buffer.count > 0

    def ready(self) -> "KeyedLanes":
        """Enter this lane into the queue of the partition's lane, by next offset, and return that one."""
        self._whole.enqueue(self)
        return self._whole

    def drop_settled(self, end: int) -> None:
        """Drop what was settled below `end` and waits here, perhaps all that is left of the key."""
        super().drop_settled(end)
        self._end_if_idle()

    def take_again(self, record: WireRecord) -> None:
        """Take back a record that was settled, and is open again: as if in flight still, about to fail."""
        self._whole.out_count += 1
        self.in_flight_count += 1

    def _hand_out(self, records: Records) -> Records:
        self._whole.out_count += len(records)
        return super()._hand_out(records)

    def _leave(self, count: int) -> None:
        self._whole.out_count -= count
        super()._leave(count)
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self.is_idle:  # or memory would hold each key that was ever seen
            self._whole.lanes_by_key.pop(self._name, None)


class KeyedLanes(PartitionLane):
    """The lanes of all keys of a partition, as one lane.

    Workers are offered this one, and get the key's lane with the lowest offset. No record waits in it: `put`
    gives each to the lane of its key.
    """

    __slots__ = ("_key_of", "_queue", "lanes_by_key")
    is_keyed: ClassVar[bool] = True
    out_count = 0

    def __init__(self, offsets: PartitionOffsets, ordering: KeyedOrdering) -> None:
        super().__init__(offsets, RecordBuffer())
        self.lanes_by_key: dict[Hashable, KeyLane] = {}
        self._key_of: Callable[[WireRecord], Hashable] = _key_of if ordering == "key" else _offset_of
        # Lanes by next offset. Some entries are out of date: they are dropped when they come up.
        self._queue: list[tuple[int, int, KeyLane]] = []

    @property
    def parts(self) -> Collection[PartitionLane]:
        """The lanes of keys that have a record here."""
        return tuple(self.lanes_by_key.values())

    @property
    def next_offset(self) -> int | None:
        """The lowest offset that waits, of any key."""
        waiting = (lane.buffer.next_offset for lane in self.lanes_by_key.values())
        return min((offset for offset in waiting if offset is not None), default=None)

    @property
    def is_idle(self) -> bool:
        """Whether no record is held here."""
        return not self.lanes_by_key

    @property
    def is_deliverable(self) -> bool:
        """Whether a record may be handed out now: any within the limit, beyond it the lowest open one."""
        if self.state is not PartitionState.ACTIVE or (offset := self._first()) is None:
            return False
        offsets = self.offsets
        if offsets.to_hand_out > 0:
            return True
        # The record that holds up the commit overtakes none, and others wait for it: without it nothing might
        # ever go on.
        return offset == offsets.ledger.committable and offsets.left_in_flight > 0

    @property
    def goes_alone(self) -> bool:
        """Whether the record that goes next may kill its worker. Called only if there is one."""
        return self._queue[0][2].goes_alone

    def enqueue(self, lane: KeyLane) -> None:
        """Add a key's lane that is deliverable to the queue."""
        offset = lane.buffer.next_offset
        assert offset is not None, "something waits"
        heappush(self._queue, (offset, lane.id, lane))

    def next_part(self) -> KeyLane:
        """Remove and return the key's lane with the lowest offset. It is deliverable."""
        return heappop(self._queue)[2]

    def put(self, records: Records, ledger: Ledger | None = None) -> None:
        """Add each fetched record to the lane of its key; with a ledger, those that are open in it."""
        if ledger is not None:
            records = [record for record in records if ledger.is_open(record.offset)]
        for record in records:
            lane = self.lane_of(record)
            lane.put([record])
            # A lane with more records is queued already, or is offered once its own records let it go on.
            if lane.buffer.count == 1 and lane.is_deliverable:
                self.enqueue(lane)

    def lane_of(self, record: WireRecord) -> KeyLane:
        """Return the lane of the record's key, a new one if no other record of the key is here."""
        name = self._key_of(record)
        if (lane := self.lanes_by_key.get(name)) is None:
            lane = self.lanes_by_key[name] = KeyLane(self.offsets, self, name)
        return lane

    def revoke(self) -> None:
        """Hand out no more of any key. The lanes stay in `parts`: a dead letter of one may be on its way."""
        super().revoke()
        for lane in self.lanes_by_key.values():
            lane.revoke()

    def _first(self) -> int | None:
        # An entry is out of date if its key was handed out, can't go on, or goes on from another offset.
        queue = self._queue
        while queue and not (queue[0][2].is_deliverable and queue[0][2].buffer.next_offset == queue[0][0]):
            heappop(queue)
        return queue[0][0] if queue else None


def _key_of(record: WireRecord) -> Hashable:
    """Return the record's key; its offset if it has no key, or none that can be read: it has no order."""
    key = None if isinstance(record, UndecodableRecord) else record.key
    return record.offset if key is None else key


def _offset_of(record: WireRecord) -> Hashable:
    return record.offset
