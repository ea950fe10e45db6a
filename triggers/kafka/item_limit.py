"""How many items one fetch may bring of a partition, where an item may be a record or a piece of batches."""

from collections.abc import Iterable

from headrace.runtime.partitions.undecoded import UndecodedPartition
from headrace.triggers.kafka.client.chunks import PIECE_BYTES


class ItemLimit:
    """The client counts items, and partitions bytes: what the last fetches brought says how large one is."""

    def __init__(self) -> None:
        self._item_bytes = PIECE_BYTES

    def items(self, partitions: Iterable[UndecodedPartition]) -> int:
        """What has place in each of them; one at least."""
        left_bytes = min((partition.waiting_room_bytes for partition in partitions), default=0)
        return max(1, left_bytes // self._item_bytes)

    def brought(self, count: int, size_bytes: int) -> None:
        """A fetch has, of one partition. Large items count for some fetches more."""
        self._item_bytes = max(1, size_bytes // count, self._item_bytes // 2)
