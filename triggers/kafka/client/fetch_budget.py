"""Memory for what brokers send: how much may be asked for now, given what is held."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Sized
from dataclasses import dataclass

_COPIES = 2  # of an answer, while it is read
_ANSWERS_PART = 8  # all open requests together may bring this part of the whole
_FLOORS_PART = 3 / 8  # is kept for partitions that hold little
_SPARE_PART = 4  # of what is left beside that, one partition may ask for this part
_FORGETTING_SHIFT = 6  # how slowly a large batch is forgotten: by a 64th with each request


class HeldBytes:
    """Bytes of one answer about one partition. They count until nothing refers to this object any more."""

    __slots__ = ("_key_and_size", "_let_go")

    def __init__(self, let_go: Callable[[Hashable, int], None], key: Hashable, size_bytes: int) -> None:
        self._let_go, self._key_and_size = let_go, (key, size_bytes)

    def __del__(self) -> None:
        self._let_go(*self._key_and_size)


@dataclass(frozen=True, slots=True)
class RequestTerms:
    """Bounds of one request: bytes for each partition, for those that hold less, and bytes in all."""

    limit_bytes: int
    max_held_bytes: int
    answer_bytes: int

    def has_room(self, held_bytes: int) -> bool:
        """Whether to ask for a partition that holds so much: while one answer is used, another comes."""
        return not held_bytes or held_bytes + self.limit_bytes <= self.max_held_bytes


class FetchBudget:
    """The bytes of all answers:

    on their way, not looked at yet, or with a part in use, which keeps the whole.

    Their sum stays below `max_bytes`, but for one batch of each broker that is asked: a broker sends the
    first one whatever its size. Each partition has a floor that others leave free; beside the floors, few
    busy partitions get much.
    """

    def __init__(
        self,
        max_bytes: int,
        partition_max_bytes: int,
        partitions: Sized = (),
        is_stalled: Callable[[Hashable], bool] = lambda _: False,
        needs_more: Callable[[Hashable], bool] = lambda _: False,
    ) -> None:
        """`partitions`: those that share the budget now.

        `is_stalled`: nothing of that partition moves by itself. `needs_more`: nothing of it moves before more
        of it has come.

        Where batches are larger than floors, what stalled partitions hold beyond theirs isn't counted: they
        would keep all others from being fetched.
        """
        self.max_bytes = max_bytes
        self.on_let_go: Callable[[], None] | None = None
        """Called once, when there is less than before, in whatever thread."""
        self._partition_max_bytes = partition_max_bytes
        self._partitions = partitions
        self._is_stalled = is_stalled
        self.needs_more = needs_more
        self._held: Counter[Hashable] = Counter()
        self._held_bytes = 0
        self._dropped: deque[tuple[Hashable, int]] = deque()  # not counted off yet
        self._open: dict[Hashable, int] = {}
        self._answered: dict[Hashable, int] = {}  # the client keeps each broker's last answer
        self._limit_bytes = partition_max_bytes  # of the last request
        self._batch_bytes = 0  # the largest that didn't fit, lately

    @property
    def floor_bytes(self) -> int:
        """Bytes that each partition may hold, if its batches are no larger, whatever the others hold."""
        return int(self.max_bytes * _FLOORS_PART) // max(1, len(self._partitions))

    @property
    def used_bytes(self) -> int:
        """Bytes that are held, and those that may come."""
        self._release_dropped()
        answered_bytes = self._answered_bytes(sum(self._answered.values()))
        # An open request counts twice, since there are two copies of an answer while it is read; what brokers
        # answered last is kept by the client, once.
        return self._held_bytes + _COPIES * sum(self._open.values()) + answered_bytes

    def held_of(self, key: Hashable) -> int:
        """Return how many bytes one partition holds."""
        self._release_dropped()
        return self._held.get(key, 0)

    def hold(self, key: Hashable, size_bytes: int) -> HeldBytes:
        """Count an answer that has come, until the returned object is gone."""
        # A broker sends one batch even if it is larger than what was asked for: the next requests allow for
        # it.
        if size_bytes > self._limit_bytes:
            self._batch_bytes = size_bytes
        self._held[key] += size_bytes
        self._held_bytes += size_bytes
        return HeldBytes(self._let_go, key, size_bytes)

    # ---- requests, of which a broker has one at a time

    def close_others(self, nodes: Collection[Hashable]) -> None:
        """Forget open requests to all but these nodes: they were answered."""
        for node in self._open.keys() - nodes:
            self._answered[node] = self._open.pop(node)

    def terms(self, node: Hashable, nodes_left: int) -> RequestTerms | None:
        """Return the terms of a request to one of `nodes_left` brokers; None where it has to wait."""
        most_bytes = self.max_bytes // (_ANSWERS_PART * (len(self._open) + nodes_left))
        all_bytes, own_bytes = sum(self._answered.values()), self._answered.get(node, 0)
        own_part = self._answered_bytes(all_bytes) - self._answered_bytes(all_bytes - own_bytes)
        free_bytes = self.max_bytes - self.used_bytes + min(own_part, most_bytes)  # let go as the next comes
        floor_bytes = self.floor_bytes
        least_bytes = floor_bytes // 2
        spare_bytes = free_bytes - self._unused_floor_bytes(floor_bytes)
        spare_limit_bytes = min(spare_bytes // (_SPARE_PART * (len(self._held) + 1)), most_bytes // 2)
        # Beside the floors there is enough: busy partitions get more than their floors.
        if spare_limit_bytes > least_bytes:
            limit_bytes = self._limit(spare_limit_bytes)
            answer_bytes = min(most_bytes, spare_bytes // (_COPIES * nodes_left))
            return RequestTerms(limit_bytes, floor_bytes + spare_bytes // 2, max(1, answer_bytes))
        # Partitions that stand with large batches would keep all others from being fetched: what they hold
        # beyond their floors isn't counted.
        if free_bytes < _COPIES * nodes_left * least_bytes:
            free_bytes += self._held_beyond_floors(floor_bytes)
        answer_bytes = min(most_bytes, free_bytes // (_COPIES * nodes_left))
        if answer_bytes < max(1, least_bytes // 2) and (self._held or self._open):
            return None
        return RequestTerms(self._limit(least_bytes), floor_bytes, max(1, answer_bytes))

    def open(self, node: Hashable, terms: RequestTerms, partitions_count: int) -> int:
        """Count a request about so many partitions, and return how many bytes it may bring."""
        self._limit_bytes = terms.limit_bytes
        self._batch_bytes -= self._batch_bytes >> _FORGETTING_SHIFT
        self._answered.pop(node, None)
        self._open[node] = max(1, min(terms.answer_bytes, partitions_count * terms.limit_bytes))
        return self._open[node]

    # ---- inside

    def _answered_bytes(self, size_bytes: int) -> int:
        """Return what counts of brokers' last answers, which the client keeps.

        Brokers that are gone may be among those; open requests never bring more than this together.
        """
        return min(size_bytes, self.max_bytes // _ANSWERS_PART)

    def _limit(self, size_bytes: int) -> int:
        return min(self._partition_max_bytes, max(1, size_bytes, self._batch_bytes))

    def _unused_floor_bytes(self, floor_bytes: int) -> int:
        used_bytes = sum(min(size, floor_bytes) for size in self._held.values())
        return len(self._partitions) * floor_bytes - used_bytes

    def _held_beyond_floors(self, floor_bytes: int) -> int:
        large = [(key, size) for key, size in self._held.items() if size > floor_bytes]
        return sum(size - floor_bytes for key, size in large if self._is_stalled(key))

    def _let_go(self, key: Hashable, size_bytes: int) -> None:
        # Called as the last reference goes, in whatever thread: only appended here, and counted off on the
        # loop.
        self._dropped.append((key, size_bytes))
        tell, self.on_let_go = self.on_let_go, None
        if tell is not None:
            tell()

    def _release_dropped(self) -> None:
        while self._dropped:
            key, size_bytes = self._dropped.popleft()
            self._held_bytes -= size_bytes
            self._held[key] -= size_bytes
            if not self._held[key]:
                del self._held[key]
