from collections.abc import Iterator
from itertools import combinations_with_replacement

from headrace.runtime.wire.progress_slot import ACK_WORDS, AckedSpan, AckSlot

ACKS = [(7, 3), (7, 4), (8, 1), (8, 2), (7, 0)]


def memory() -> memoryview:
    return memoryview(bytearray(8 * ACK_WORDS)).cast("Q")


def test_acks_that_follow_each_other_are_one_span() -> None:
    slot = AckSlot(memory())
    assert slot.read() is None
    assert slot.add(7, 0)
    assert slot.add(7, 1)
    assert slot.read() == AckedSpan(7, 0, 2, 1)
    assert not slot.add(7, 3)
    assert not slot.add(8, 2)
    assert slot.read() == AckedSpan(7, 0, 2, 1)
    slot.clear()
    assert slot.read() is None
    assert slot.add(8, 2)
    assert slot.read() == AckedSpan(8, 2, 3, 2)


class Recorded:
    """Memory that remembers what was stored, in order."""

    def __init__(self) -> None:
        self._words = [0] * ACK_WORDS
        self.stores: list[tuple[int, int]] = []

    def __getitem__(self, index: int) -> int:
        return self._words[index]

    def __setitem__(self, index: int, value: int) -> None:
        self._words[index] = value
        self.stores.append((index, value))


class Shared:
    """Memory in which so many of the stores are made before each load, and all the others after those."""

    def __init__(self, stores: list[tuple[int, int]], loads: Iterator[int]) -> None:
        self._stores, self._loads = stores, loads

    def __getitem__(self, index: int) -> int:
        made = self._stores[: next(self._loads, len(self._stores))]
        return next((value for at, value in reversed(made) if at == index), 0)


def test_a_reader_sees_only_what_was_acked_whenever_it_looks() -> None:
    recorded = Recorded()
    writer = AckSlot(recorded)  # type: ignore[arg-type]  # what it uses of a memoryview
    for ack in ACKS:
        if not writer.add(*ack):
            writer.clear()
            assert writer.add(*ack)
    seen = set()
    for loads in combinations_with_replacement(range(len(recorded.stores) + 1), 4):
        span = AckSlot(Shared(recorded.stores, iter(loads))).read()  # type: ignore[arg-type]  # as above
        if span is not None:
            assert {(span.lane_id, offset) for offset in range(span.first, span.end)} <= set(ACKS)
            seen.add(span)
    assert seen == {
        AckedSpan(7, 3, 4, 1),
        AckedSpan(7, 3, 5, 1),
        AckedSpan(8, 1, 2, 2),
        AckedSpan(8, 1, 3, 2),
        AckedSpan(7, 0, 1, 3),
    }
