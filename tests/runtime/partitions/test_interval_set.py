"""The interval set against a plain set of numbers."""

import random

import pytest
from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.runtime.partitions.offsets import interval_set
from headrace.runtime.partitions.offsets.interval_set import PAGE, IntervalSet

NUMBERS = st.integers(0, 40)


def _runs_of(numbers: set[int]) -> list[tuple[int, int]]:
    firsts = sorted(n for n in numbers if n - 1 not in numbers)
    ends = sorted(n + 1 for n in numbers if n + 1 not in numbers)
    return list(zip(firsts, ends, strict=True))


class IntervalSetModel(RuleBasedStateMachine):
    """Each method does to the runs what it does to a set that holds every number."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = IntervalSet()
        self.numbers: set[int] = set()

    @rule(first=NUMBERS, end=NUMBERS)
    def insert(self, first: int, end: int) -> None:
        span = set(range(first, end))
        assert self.runs.insert(first, end) == len(span - self.numbers)
        self.numbers |= span

    @rule(number=NUMBERS)
    def insert_one(self, number: int) -> None:
        self.insert(number, number + 1)

    @rule(skipped=st.integers(0, 3), step=st.integers(2, 4))
    def insert_many_runs(self, skipped: int, step: int) -> None:
        for number in range(skipped, 41, step):
            self.insert_one(number)

    @rule(bound=NUMBERS)
    def take_below(self, bound: int) -> None:
        taken = {n for n in self.numbers if n < bound}
        assert self.runs.take_below(bound) == _runs_of(taken)
        self.numbers -= taken

    @rule(bound=NUMBERS)
    def take_through(self, bound: int) -> None:
        end = bound
        # A run that ends at the bound and one that starts there would be one run.
        while end in self.numbers:
            end += 1
        assert self.runs.take_through(bound) == end
        self.numbers = {n for n in self.numbers if n >= end}

    @rule(first=NUMBERS, end=NUMBERS)
    def gaps(self, first: int, end: int) -> None:
        assert list(self.runs.gaps(first, end)) == _runs_of(set(range(first, end)) - self.numbers)

    @invariant()
    def it_says_what_the_model_says(self) -> None:
        assert self.runs.to_list() == _runs_of(self.numbers)
        assert self.runs.count == len(self.numbers)
        assert bool(self.runs) == bool(self.numbers)
        assert [n for n in range(-1, 42) if n in self.runs] == sorted(self.numbers)

    @invariant()
    def each_page_but_the_lowest_begins_at_its_border(self) -> None:
        assert self.runs._borders == [page[0] for page in self.runs._pages[1:]]


class SmallPagesModel(IntervalSetModel):
    """The same with pages of two runs: what is inserted, asked for and taken goes across many."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(interval_set, "PAGE", 4)

    def teardown(self) -> None:
        self.patch.undo()

    @invariant()
    def no_page_is_larger(self) -> None:
        assert all(len(page) <= 4 for page in self.runs._pages)


TestIntervalSetAgainstModel = IntervalSetModel.TestCase
TestIntervalSetAgainstModel.settings = settings(
    max_examples=examples(300), stateful_step_count=30, deadline=None
)
TestSmallPagesAgainstModel = SmallPagesModel.TestCase
TestSmallPagesAgainstModel.settings = TestIntervalSetAgainstModel.settings


def test_a_span_that_fills_the_hole_between_two_runs_makes_them_one() -> None:
    runs = IntervalSet()
    runs.insert(0, 3)
    runs.insert(5, 8)
    assert runs.insert(3, 5) == 2
    assert runs.to_list() == [(0, 8)]


def test_a_run_across_the_bound_is_cut_there() -> None:
    runs = IntervalSet()
    runs.insert(2, 9)
    assert runs.take_below(4) == [(2, 4)]
    assert (runs.to_list(), runs.count) == ([(4, 9)], 5)


def test_taking_through_a_bound_says_where_the_run_that_it_reaches_ends() -> None:
    runs = IntervalSet()
    runs.insert(2, 3)
    runs.insert(5, 8)
    runs.insert(10, 11)
    assert runs.take_through(5) == 8
    assert runs.to_list() == [(10, 11)]


@pytest.mark.parametrize(("first", "end"), [(4, 4), (5, 4)])
def test_an_empty_span_changes_nothing(first: int, end: int) -> None:
    runs = IntervalSet()
    runs.insert(0, 9)
    assert runs.insert(first, end) == 0
    assert runs.to_list() == [(0, 9)]


def test_a_billion_numbers_are_one_run_however_they_came() -> None:
    runs, third = IntervalSet(), 10**9 // 3
    assert runs.insert(0, third) + runs.insert(2 * third, 10**9) + runs.insert(5, 10**9 - 5) == 10**9
    assert (runs.insert(7, 10**9), runs.to_list()) == (0, [(0, 10**9)])


def test_a_span_over_many_pages_leaves_one_run() -> None:
    runs = IntervalSet()
    singles = range(0, 20 * PAGE, 2)
    assert sum(runs.insert(number, number + 1) for number in singles) == len(singles) == runs.count
    assert len(list(runs.gaps(0, 20 * PAGE))) == len(singles)
    assert runs.insert(3, 20 * PAGE) == len(singles) - 1
    assert runs.to_list() == [(0, 1), (2, 20 * PAGE)]


def test_no_page_grows_with_the_runs() -> None:
    """So no insert shifts more with 25,000 runs than with 250; what that costs says benchmarks/ledger.py."""
    runs = IntervalSet()
    for number in random.Random(7).sample(range(100_000), 50_000):
        assert (runs.insert(number, number + 1), runs.insert(number, number + 1)) == (1, 0)
        assert len(runs._pages[0]) <= PAGE
    assert all(0 < len(page) <= PAGE for page in runs._pages)
    assert len(runs.to_list()) > 40 * PAGE
