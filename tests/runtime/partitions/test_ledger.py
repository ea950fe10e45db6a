"""The ledger against a model that keeps one entry per offset."""

import random

import pytest
from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.runtime.partitions.offsets.ledger import Ledger

START = 100
AHEAD = 12  # how far above the position the model settles and looks


class LedgerModel(RuleBasedStateMachine):
    """A plain set of the settled offsets from START on, fetched or not, and the fetch position.

    Everything that the ledger says must follow from these two.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(START)
        self.settled: set[int] = set()
        self.position = START
        self.highest_commit = START

    @property
    def committable(self) -> int:
        fetched = range(START, self.position)
        return next((offset for offset in fetched if offset not in self.settled), self.position)

    @property
    def open(self) -> set[int]:
        return set(range(START, self.position)) - self.settled

    @rule(gap=st.integers(0, 3), length=st.integers(1, 8))
    def add(self, gap: int, length: int) -> None:
        first = self.position + gap
        self.ledger.add(first, first + length)
        self.settled |= set(range(self.position, first))
        self.position = first + length

    @rule(step=st.integers(-2, 4))
    def advance(self, step: int) -> None:
        self.ledger.advance(self.position + step)
        self.settled |= set(range(self.position, self.position + step))
        self.position += max(step, 0)

    @rule(data=st.data())
    def settle_any_span(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(START - 5, self.position + AHEAD), label="end")
        first = data.draw(st.integers(START - 10, end), label="first")
        self.settle(first, end)

    @rule(below=st.integers(0, 5), above=st.integers(1, AHEAD))
    def settle_across_the_position(self, below: int, above: int) -> None:
        self.settle(self.position - below, self.position + above)

    @rule(skipped=st.integers(0, AHEAD - 1))
    def settle_one_ahead(self, skipped: int) -> None:
        self.settle(self.position + skipped, self.position + skipped + 1)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def settle_one_open_record(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.open)), label="offset")
        self.settle(offset, offset + 1)

    def settle(self, first: int, end: int) -> None:
        expected = len(self.open.intersection(range(first, end)))
        assert self.ledger.settle(first, end) == expected
        self.settled |= set(range(max(first, START), end))

    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        """What settled a record is void: a handler, an ack, or one that came ahead of its fetch."""
        first = data.draw(st.integers(START, self.position + AHEAD), label="first")
        end = data.draw(st.integers(first + 1, first + 4), label="end")
        self.ledger.reopen(first, end)
        self.settled -= set(range(first, end))
        self.highest_commit = min(self.highest_commit, self.committable)

    @rule(data=st.data())
    def reload(self, data: st.DataObject) -> None:
        """A new owner reads a commit. The model goes on as it was: the same future, from the commit on."""
        runs = data.draw(st.permutations(self.ledger.settled_spans()), label="runs")
        self.ledger = Ledger(self.ledger.committable, runs)
        self.position = self.committable

    @rule(kept=st.integers(0, 3))
    def reload_what_fits(self, kept: int) -> None:
        """A commit's metadata keeps the lowest runs only."""
        committable, runs = self.committable, self.ledger.settled_spans()[:kept]
        self.ledger = Ledger(committable, runs)
        self.position = committable
        self.settled = set(range(START, committable)).union(*(range(first, end) for first, end in runs))

    @invariant()
    def it_says_what_the_model_says(self) -> None:
        assert self.ledger.position == self.position
        assert self.ledger.committable == self.committable
        assert self.ledger.open_count == len(self.open)
        assert self.ledger.has_ahead == any(offset >= self.position for offset in self.settled)
        for offset in range(START - 1, self.position + AHEAD + 2):
            assert self.ledger.is_open(offset) == (offset in self.open)
            assert self.ledger.is_settled(offset) == (offset < START or offset in self.settled)

    @invariant()
    def the_runs_are_what_the_model_settled_above_the_commit(self) -> None:
        above = {offset for offset in self.settled if offset >= self.committable}
        assert self.ledger.settled_spans() == spans_of(above)

    @invariant()
    def its_spans_are_what_the_model_has_between_any_two_offsets(self) -> None:
        low, high = self.committable, self.position
        for first, end in (
            (START - 2, high + AHEAD),
            (low + 1, high - 1),
            (low + 2, high + 2),
            (high - 3, high),
            (high - 1, high + 5),
            (high + 1, high + 2),
            (high, low),
        ):
            unsettled = set(range(max(first, START), end)) - self.settled
            assert list(self.ledger.open_spans(first, end)) == spans_of(unsettled & self.open)
            assert list(self.ledger.unsettled_spans(first, end)) == spans_of(unsettled)

    @invariant()
    def the_commit_moves_back_only_for_what_is_taken_back(self) -> None:
        assert self.ledger.committable >= self.highest_commit
        self.highest_commit = self.ledger.committable


def spans_of(offsets: set[int]) -> list[tuple[int, int]]:
    """Disjoint, not adjacent, ascending."""
    firsts = sorted(offset for offset in offsets if offset - 1 not in offsets)
    ends = sorted(offset + 1 for offset in offsets if offset + 1 not in offsets)
    return list(zip(firsts, ends, strict=True))


def test_what_is_not_settled_lies_between_spans_on_both_sides_of_the_position() -> None:
    ledger = Ledger(10, [(12, 14), (18, 20)])
    ledger.add(10, 16)
    assert list(ledger.open_spans(0, 30)) == [(10, 12), (14, 16)]
    assert list(ledger.unsettled_spans(0, 30)) == [(10, 12), (14, 18), (20, 30)]
    assert list(ledger.open_spans(11, 15)) == [(11, 12), (14, 15)]
    assert list(ledger.unsettled_spans(15, 19)) == [(15, 18)]
    assert [list(found) for found in (ledger.open_spans(16, 30), ledger.unsettled_spans(18, 20))] == [[], []]


TestLedgerAgainstModel = LedgerModel.TestCase
TestLedgerAgainstModel.settings = settings(max_examples=examples(300), stateful_step_count=40)


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
    assert (ledger.committable, ledger.settled_spans()) == (5, [(6, 100)])


def test_a_single_open_record_holds_the_commit_where_the_next_one_is_settled() -> None:
    ledger = Ledger(5)
    ledger.add(5, 8)
    ledger.settle(6, 7)
    assert (ledger.committable, ledger.settled_spans()) == (5, [(6, 7)])


@pytest.mark.parametrize(("first", "end"), [(9, 12), (10, 10), (12, 11)])
def test_a_span_that_was_fetched_before_is_refused(first: int, end: int) -> None:
    ledger = Ledger(10)
    with pytest.raises(ValueError, match="does not follow position 10"):
        ledger.add(first, end)


def test_a_refused_span_leaves_the_ledger_as_it_was() -> None:
    ledger = Ledger(10, [(12, 14)])
    with pytest.raises(ValueError, match="does not follow"):
        ledger.add(13, 13)
    assert (ledger.position, ledger.settled_spans()) == (10, [(12, 14)])


def test_an_ack_before_its_fetch_counts_when_the_fetch_gets_there() -> None:
    ledger = Ledger(0)
    assert ledger.settle(3, 5) == 0
    assert (ledger.is_settled(3), ledger.is_open(3), ledger.committable) == (True, False, 0)
    ledger.add(0, 8)
    assert [offset for offset in range(8) if ledger.is_open(offset)] == [0, 1, 2, 5, 6, 7]
    assert (ledger.open_count, ledger.has_ahead) == (6, False)


def test_the_commit_waits_for_the_fetch_even_where_all_is_settled() -> None:
    ledger = Ledger(10, [(10, 20)])
    assert (ledger.committable, ledger.settled_spans()) == (10, [(10, 20)])
    ledger.add(10, 15)
    assert (ledger.committable, ledger.settled_spans()) == (15, [(15, 20)])
    ledger.advance(20)
    assert (ledger.committable, ledger.settled_spans()) == (20, [])


def test_a_span_across_the_position_settles_now_what_was_fetched_and_is_one_run() -> None:
    ledger = Ledger(0)
    ledger.add(0, 5)
    assert ledger.settle(3, 9) == 2
    assert (ledger.settled_spans(), ledger.open_count) == ([(3, 9)], 3)


def test_runs_below_the_start_are_settled_anyway() -> None:
    ledger = Ledger(10, [(2, 4), (8, 12)])
    assert ledger.settled_spans() == [(10, 12)]


def test_a_hundred_thousand_records_settle_in_any_order() -> None:
    """Quadratic work would not end within any test's patience; benchmarks/ledger.py says what one costs."""
    ledger = Ledger(0)
    ledger.add(0, 100_000)
    offsets = list(range(100_000))
    random.Random(7).shuffle(offsets)
    assert sum(ledger.settle(offset, offset + 1) for offset in offsets) == 100_000
    assert (ledger.committable, ledger.open_count, ledger.settled_spans()) == (100_000, 0, [])
