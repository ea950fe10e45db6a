"""How many items one fetch may bring of a partition, where an item may be a record or a piece of batches."""

from headrace.triggers.kafka.client.undecoded_fetch import PIECE_BYTES


class FetchItemLimit:
    """The client counts items, and partitions bytes: what the last fetches brought says how large one is."""

    def __init__(self) -> None:
        self._item_bytes = PIECE_BYTES

    def items(self, left_bytes: int) -> int:
        """What has place in so many bytes; one at least."""
        return max(1, left_bytes // self._item_bytes)

    def brought(self, count: int, size_bytes: int) -> None:
        """A fetch has, of one partition. Large items count for some fetches more."""
        self._item_bytes = max(1, size_bytes // count, self._item_bytes // 2)
