"""The ledger against a model that keeps one entry per offset."""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.runtime.ledger import Ledger

START = 100


class LedgerModel(RuleBasedStateMachine):
    """Offsets in a dict: True while open. Everything the ledger says must follow from it."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(START)
        self.open: dict[int, bool] = {}
        self.position = START
        self.highest_commit = START

    @rule(gap=st.integers(0, 3), length=st.integers(1, 8))
    def fetch(self, gap: int, length: int) -> None:
        first = self.position + gap
        self.ledger.add(first, first + length)
        self.open |= dict.fromkeys(range(self.position, first), False)
        self.open |= dict.fromkeys(range(first, first + length), True)
        self.position = first + length

    @rule(gap=st.integers(0, 3))
    def skip(self, gap: int) -> None:
        self.ledger.advance(self.position + gap)
        self.open |= dict.fromkeys(range(self.position, self.position + gap), False)
        self.position += gap

    @precondition(lambda self: self.position > START)
    @rule(data=st.data())
    def settle_any_span(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(START - 5, self.position), label="end")
        first = data.draw(st.integers(START - 10, end), label="first")
        expected = sum(self.open.get(offset, False) for offset in range(first, end))
        assert self.ledger.settle(first, end) == expected
        self.open |= dict.fromkeys(range(max(first, START), end), False)

    @precondition(lambda self: any(self.open.values()))
    @rule(data=st.data())
    def settle_one_open_record(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([o for o, is_open in self.open.items() if is_open]))
        assert self.ledger.settle(offset, offset + 1) == 1
        self.open[offset] = False

    @invariant()
    def it_says_what_the_model_says(self) -> None:
        lowest_open = min((o for o, is_open in self.open.items() if is_open), default=self.position)
        assert self.ledger.position == self.position
        assert self.ledger.committable == lowest_open
        assert self.ledger.open_count == sum(self.open.values())
        assert self.ledger.settled_runs() == list(self.runs_above(lowest_open))
        for offset in range(START - 1, self.position + 2):
            assert self.ledger.is_open(offset) == self.open.get(offset, False)

    @invariant()
    def the_commit_never_moves_back(self) -> None:
        assert self.ledger.committable >= self.highest_commit
        self.highest_commit = self.ledger.committable

    def runs_above(self, offset: int) -> Iterator[tuple[int, int]]:
        first = None
        for at in range(offset, self.position + 1):
            settled = at < self.position and not self.open[at]
            if settled and first is None:
                first = at
            elif not settled and first is not None:
                yield first, at
                first = None


TestLedgerAgainstModel = LedgerModel.TestCase
TestLedgerAgainstModel.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)


def test_with_nothing_open_the_commit_is_the_fetch_position() -> None:
    ledger = Ledger(5)
    ledger.add(5, 8)
    ledger.settle(5, 8)
    ledger.advance(20)
    assert (ledger.committable, ledger.open_count) == (20, 0)


def test_a_record_left_open_holds_the_commit_however_much_follows() -> None:
    ledger = Ledger(0)
    ledger.add(0, 100)
    for offset in range(99, 5, -1):
        ledger.settle(offset, offset + 1)
    ledger.settle(0, 5)
    assert (ledger.committable, ledger.settled_runs()) == (5, [(6, 100)])


@pytest.mark.parametrize(("first", "end"), [(9, 12), (10, 10), (12, 11)])
def test_a_span_that_was_fetched_before_is_refused(first: int, end: int) -> None:
    ledger = Ledger(10)
    with pytest.raises(ValueError, match="does not follow position 10"):
        ledger.add(first, end)


def test_what_was_not_fetched_cannot_be_settled() -> None:
    ledger = Ledger(0)
    ledger.add(0, 3)
    with pytest.raises(ValueError, match="past position 3"):
        ledger.settle(2, 4)
