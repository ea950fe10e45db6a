"""What a commit says while messages are on their way: all that is settled, without what is held."""

from hypothesis import example, given
from hypothesis import strategies as st

from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.offsets.pending_produces import HandlerCall, PendingProduces, PendingRecord

offsets = st.sets(st.integers(0, 30))


@given(offsets, st.dictionaries(st.integers(0, 30), st.integers(1, 4)))
@example({0, 1, 2, 3, 4, 6}, {2: 1})  # below the commit, which at random is seldom
def test_all_that_is_settled_is_said_but_for_what_is_held(settled: set[int], held: dict[int, int]) -> None:
    ledger = Ledger(0)
    ledger.add(0, 31)
    for offset in settled:
        ledger.settle(offset, offset + 1)
    records = PendingProduces(
        {first: PendingRecord(HandlerCall(open=1), first + size, 0) for first, size in held.items()}
    )
    hidden = {it for first, size in held.items() for it in range(first, first + size)}
    if not records:
        return
    offset, acked = records.hold_back(ledger.committable, ledger.settled_spans())
    said = {*range(offset), *(it for span in acked for it in range(*span))}
    assert said == settled - hidden
    assert all(first < end for first, end in acked)
    assert acked == sorted(acked)


@given(offsets, st.integers(0, 30), st.integers(1, 4))
def test_what_is_reopened_is_open_and_all_else_as_it_was(settled: set[int], first: int, size: int) -> None:
    ledger = Ledger(0)
    ledger.add(0, 40)
    for offset in settled | set(range(first, first + size)):
        ledger.settle(offset, offset + 1)
    ledger.reopen(first, first + size)
    left = settled - set(range(first, first + size))
    assert {it for it in range(40) if ledger.is_settled(it)} == left
    assert ledger.committable == next(it for it in range(41) if it not in left)
    assert ledger.open_count == 40 - len(left)
    ledger.settle(first, first + size)
    assert {it for it in range(40) if ledger.is_settled(it)} == left | set(range(first, first + size))
