"""How much a worker is given at a time, from how long its handler takes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.runtime.dispatch.run_sizer import BUDGET_NS, MAX_RUN_RECORDS, RunSizer


def measured(ns_per_record: float) -> RunSizer:
    sizer = RunSizer()
    sizer.ns_per_record = ns_per_record
    return sizer


@given(st.floats(0, 1e12))
@example(0)
@example(BUDGET_NS / 2)
@example(BUDGET_NS / 2 / MAX_RUN_RECORDS)
def test_a_run_takes_half_a_budget_as_far_as_records_allow(ns_per_record: float) -> None:
    length = measured(ns_per_record).run_length
    ns_each = max(ns_per_record, 1)
    assert length == 1 or length * ns_each <= BUDGET_NS / 2
    assert length == MAX_RUN_RECORDS or (length + 1) * ns_each > BUDGET_NS / 2
    assert 1 <= length <= MAX_RUN_RECORDS


@pytest.mark.parametrize(
    ("ns_per_record", "length"),
    [(0, 1024), (1_000, 1024), (4_000, 500), (1_000_000, 2), (2_000_000, 1), (20_000_000, 1)],
)
def test_quick_handlers_get_long_runs_and_slow_ones_a_record(ns_per_record: float, length: int) -> None:
    assert measured(ns_per_record).run_length == length


@given(st.integers(1, 10_000), st.floats(0, 1e10))
@example(2, BUDGET_NS / 2)
@example(2, BUDGET_NS / 2 - 1)
def test_a_worker_has_room_until_a_whole_budget_is_outstanding(held: int, ns_per_record: float) -> None:
    sizer = measured(ns_per_record)
    assert sizer.has_room(0), "whatever it costs, something has to go"
    assert sizer.has_room(held) == (held * ns_per_record < BUDGET_NS)


def test_before_anything_is_measured_a_millisecond_is_assumed() -> None:
    sizer = RunSizer()
    assert sizer.run_length == 2
    assert [held for held in range(6) if sizer.has_room(held)] == [0, 1, 2, 3]


@given(st.floats(0, 1e9), st.integers(1, 1000), st.integers(0, 10**9))
def test_what_is_measured_counts_for_three_tenths(before: float, count: int, handler_ns: int) -> None:
    sizer = measured(before)
    sizer.on_measured(count, handler_ns)
    assert sizer.ns_per_record == pytest.approx(0.7 * before + 0.3 * handler_ns / count)


def test_a_handler_whose_pace_changes_is_known_within_some_runs() -> None:
    sizer = RunSizer()
    for _ in range(30):
        sizer.on_measured(100, 100 * 1_000)
    assert sizer.run_length == MAX_RUN_RECORDS
    for _ in range(30):
        sizer.on_measured(1, 20_000_000)
    assert (sizer.run_length, sizer.has_room(1)) == (1, False)


def test_where_nothing_ran_nothing_is_learned() -> None:
    sizer = RunSizer()
    sizer.on_measured(0, 5_000_000)
    assert sizer.ns_per_record == RunSizer().ns_per_record


def test_only_steady_times_that_are_not_long_foretell_the_next() -> None:
    sizer = RunSizer()
    for _ in range(30):
        sizer.on_measured(1, 20_000_000)
    assert sizer.is_predictable
    for handler_ns in (5_000_000, 35_000_000) * 5:
        sizer.on_measured(1, handler_ns)
        assert not sizer.is_predictable
    for _ in range(30):
        sizer.on_measured(1, 20_000_000)
    assert sizer.is_predictable
    for _ in range(60):
        sizer.on_measured(1, 200_000_000)
    assert not sizer.is_predictable, "a hop is nothing beside it"
