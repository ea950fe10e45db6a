"""A partition whose records are fetched far ahead, as undecoded chunks."""

from collections.abc import Sequence

from headrace.runtime.partitions.assigned import AssignedPartition, PartitionState
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.wire.frames import WireRecord


class UndecodedPartition(AssignedPartition):
    """`capacity` bounds what is handed out and not settled; what waits is bounded by `max_waiting_bytes`."""

    __slots__ = ("max_waiting_bytes",)

    def __init__(  # noqa: PLR0913, PLR0917  # what its base has, and one more
        self,
        topic: str,
        partition: int,
        start: Checkpoint,
        capacity: int,
        ack_window_size: int,
        max_waiting_bytes: int,
    ) -> None:
        super().__init__(topic, partition, start, capacity, ack_window_size)
        self.max_waiting_bytes = max_waiting_bytes

    @property
    def unsettled(self) -> int:
        """Records that were handed out and not settled."""
        if self.state is PartitionState.REVOKED:
            return self.in_flight_count
        return self.ledger.open_count - len(self._buffer)

    @property
    def room(self) -> int:
        """Of chunks, all that a fetch has brought or nothing; of decoded records, so many."""
        if self.is_cut_off or self.is_paused or self.state.is_final:
            return 0
        room = self.capacity - self._buffer.decoded_count
        return room if self.waiting_room_bytes > 0 and 2 * room >= self.capacity else 0

    @property
    def waiting_room_bytes(self) -> int:
        """How much more may wait; below 0 where a fetch has brought more than that."""
        left: int = self.max_waiting_bytes - self._buffer.size_bytes
        return left

    @property
    def is_deliverable(self) -> bool:
        """Whether the next record may be handed out now: behind others only as half a capacity of them."""
        if not super().is_deliverable:
            return False
        room = self.capacity - self.unsettled
        return room > 0 and (not self.in_flight_count or 2 * room >= self.capacity)

    @property
    def waits_for_acks(self) -> bool:
        """Nothing more is handed out before somebody acks."""
        return bool(self.unacked) and not self.in_flight_count and self.unsettled >= self.capacity

    def take(self, limit: int, byte_limit: int) -> Sequence[WireRecord]:
        """The next records to hand out, at least one."""
        return super().take(min(limit, self.capacity - self.unsettled), byte_limit)
