"""How old the first record of a partition is that is open, and the first that waits for its ack."""

from collections import deque
from collections.abc import Mapping

from headrace.runtime.partitions.assigned import AssignedPartition


class Ages:
    """Seen from look to look, so true to the time between two. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._lowest: dict[int, tuple[int, float]] = {}  # open, by lane: its offset, and since when
        # By lane: the last offset that waited for an ack, and when that was seen first.
        self._unacked: dict[int, deque[tuple[int, float]]] = {}

    def look(self, partitions: Mapping[int, AssignedPartition], now: float) -> None:
        """Once. `partitions` by their lanes."""
        for known in (self._lowest, self._unacked):
            for lane_id in known.keys() - partitions.keys():
                del known[lane_id]
        for lane_id, partition in partitions.items():
            partition.oldest_open_seconds = self._open(lane_id, partition, now)
            partition.oldest_unacked_seconds = self._waiting(lane_id, partition, now)

    def _open(self, lane_id: int, partition: AssignedPartition, now: float) -> float:
        ledger = partition.ledger
        lowest = self._lowest.get(lane_id, (-1, now))[0]
        if not ledger.open_count or lowest != ledger.committable:
            self._lowest[lane_id] = ledger.committable, now
        return now - self._lowest[lane_id][1] if ledger.open_count else 0.0

    def _waiting(self, lane_id: int, partition: AssignedPartition, now: float) -> float:
        """They come in order of offset: what was the last one at a look, all below it were there by then."""
        if not partition.unacked:
            self._unacked.pop(lane_id, None)
            return 0.0
        seen = self._unacked.setdefault(lane_id, deque())
        first, last = min(partition.unacked), max(partition.unacked)
        if not seen or last > seen[-1][0]:
            seen.append((last, now))
        while seen[0][0] < first:
            seen.popleft()
        return now - seen[0][1]
