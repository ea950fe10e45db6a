"""How old the first record of a partition is that is open, and the first that waits for its ack."""

from collections.abc import Mapping

from headrace.runtime.partitions.partition import AssignedPartition


class OldestOpen:
    """Seen from look to look, so true to the time between two. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._lowest: dict[int, tuple[int, float]] = {}  # open, by lane: its offset, and since when

    def look(self, partitions: Mapping[int, AssignedPartition], now: float) -> None:
        """Once. `partitions` by their lanes."""
        for lane_id in self._lowest.keys() - partitions.keys():
            del self._lowest[lane_id]
        for lane_id, partition in partitions.items():
            partition.oldest_open_seconds = self._open(lane_id, partition, now)
            partition.oldest_unacked_seconds = partition.unacked.look(now)

    def _open(self, lane_id: int, partition: AssignedPartition, now: float) -> float:
        ledger = partition.ledger
        lowest = self._lowest.get(lane_id, (-1, now))[0]
        if not ledger.open_count or lowest != ledger.committable:
            self._lowest[lane_id] = ledger.committable, now
        return now - self._lowest[lane_id][1] if ledger.open_count else 0.0
