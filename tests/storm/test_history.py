"""Whole histories before the judge of the storms: each of these breaks one promise, and must not pass."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from commits import Sample
from history import Entry, RecordId
from judge import Allowed, Evidence, judge
from scenario import Report
from test_checkers import SECOND, committed, in_time, killed, ran

NOT_AT_THE_END = "L9 last commits that aren't the end of the log"
BEYOND = "L5 committed beyond the end of the log"
TOO_FAR = "L5 committed before their end"
OUT_OF_ORDER = "L3 out of order"
PASSED_OVER = "L3 started before a lower one was done"
OVERLAPS = "L4 overlaps"
WENT_ON = "L2 started, not ended, and their worker went on"
ATTEMPTS = "L2 attempts above what was delivered"
STALL = "L9 longest stall, s"

CLEAN = in_time(ran(0, 0, 1), ran(0, 0.5, 1.5, pid=2, partition=1), ran(1, 1, 2), ran(2, 3, 4))


def all_committed(at: float, first: int = 3, second: int = 1) -> Sample:
    return Sample(int(at * SECOND), {("t", 0): first, ("t", 1): second})


NOTHING = Allowed()
SAMPLES = [all_committed(0.9, 0, 0), all_committed(2.5, 2), all_committed(5)]


def broken(
    history: Sequence[Entry] = CLEAN,
    samples: Sequence[Sample] = SAMPLES,
    *,
    allowed: Allowed = NOTHING,
    produced: int = 3,
    alive_until: Mapping[int, int] | None = None,
    given_up: Mapping[RecordId, int] | None = None,
    memberships_lost: int = 0,
) -> list[str]:
    """The promises that it breaks, of `produced` records in partition 0 and one in partition 1."""
    evidence = Evidence(
        {("t", 1, 0), *(("t", 0, n) for n in range(produced))},
        {("t", 0): produced, ("t", 1): 1},
        history,
        samples,
        alive_until=alive_until or {},
        given_up=given_up or {},
        memberships_lost=memberships_lost,
    )
    report = Report(patience=1)
    judge(evidence, allowed, report, 0)
    return report.broken


def again(*runs: list[Entry]) -> list[Entry]:
    """Partition 0 as in these, partition 1 as it should be."""
    return in_time(*runs, ran(0, 0.5, 1.5, pid=2, partition=1))


def test_a_clean_history_passes() -> None:
    assert broken() == []


def test_a_kill_that_is_explained_passes() -> None:
    history = again(ran(0, 0, 1), killed(1, 1, 1.2), ran(1, 3, 4, pid=3), ran(2, 4, 4.5, pid=3))
    allowed = Allowed(repeats=1, cut_off=1)
    samples = [all_committed(2.5, 1), all_committed(5)]
    assert broken(history, samples, alive_until={1: int(1.5 * SECOND)}, allowed=allowed) == []


# ---- commits


def test_a_commit_that_stays_at_one_for_ever_is_found() -> None:
    assert broken(samples=[all_committed(at, 1) for at in (2.5, 5, 500)]) == [NOT_AT_THE_END]


def test_no_sample_at_all_is_found() -> None:
    assert broken(samples=[]) == [NOT_AT_THE_END]


def test_a_commit_beyond_the_end_of_the_log_is_found_though_it_comes_back() -> None:
    assert broken(samples=[*SAMPLES, all_committed(6, 4)]) == [BEYOND, NOT_AT_THE_END]
    assert BEYOND in broken(samples=[*SAMPLES, all_committed(6, 4), all_committed(7)])


def test_a_partition_without_a_commit_is_found() -> None:
    assert broken(samples=[committed(5, 3)]) == [NOT_AT_THE_END]


def test_a_commit_before_its_dead_letter_was_written_is_found() -> None:
    history = again(ran(0, 0, 1), ran(1, 1, None), ran(2, 3, 4))
    samples = [all_committed(2.5, 2), all_committed(5)]
    record = ("t", 0, 1)
    assert broken(history, samples, given_up={record: 2 * SECOND}) == []
    assert broken(history, samples, given_up={record: int(2.8 * SECOND)}) == [TOO_FAR]
    assert broken(history, samples, given_up={record: int(3.1 * SECOND)}) == [PASSED_OVER, TOO_FAR]


# ---- overlaps


def test_an_overlap_with_a_killed_process_that_wrote_no_tick_is_found() -> None:
    history = again(ran(0, 0, None), ran(0, 1, 2, pid=3), ran(1, 2, 3, pid=3), ran(2, 3, 4, pid=3))
    allowed = Allowed(repeats=1, cut_off=1)
    samples = [all_committed(0.9, 0, 0), all_committed(5)]
    assert broken(history, samples, allowed=allowed, alive_until={1: int(0.9 * SECOND)}) == []
    assert OVERLAPS in broken(history, samples, allowed=allowed, alive_until={1: int(1.1 * SECOND)})


def test_an_overlap_of_no_known_length_is_found() -> None:
    history = again(ran(0, 0, 2), ran(1, 1, None, pid=3), ran(1, 2, 3, pid=4), ran(2, 3, 4, pid=4))
    samples = [all_committed(0.9, 0, 0), all_committed(5)]
    found = broken(history, samples, allowed=Allowed(repeats=1, cut_off=1))
    assert found == [PASSED_OVER, OVERLAPS]


def test_records_of_a_partition_that_overlap_in_one_process_are_found() -> None:
    start, end = ran(0, 0, 1.5)
    found = broken(again([start, end], ran(1, 1, 2), ran(2, 3, 4)))
    assert found == [WENT_ON, PASSED_OVER, OVERLAPS, "L4 longest overlap, s"]


# ---- order


def test_a_second_delivery_in_another_order_is_found() -> None:
    first = [*ran(0, 0, 1), *ran(1, 1, 2), *ran(2, 2, 3)]
    allowed = Allowed(repeats=3)
    in_order = [*ran(0, 4, 5, 3), *ran(1, 5, 6, 3), *ran(2, 6, 7, 3)]
    samples = [all_committed(0.9, 0, 0), all_committed(8)]
    assert broken(again(first, in_order), samples, allowed=allowed) == []
    for order in ([1, 0, 2], [2, 0, 1], [1, 2, 0]):
        second = [ran(offset, at, at + 1, 3) for at, offset in enumerate(order, 4)]
        assert broken(again(first, *second), samples, allowed=allowed) == [OUT_OF_ORDER], order


def test_a_lower_record_that_starts_after_a_higher_one_had_ended_is_found() -> None:
    history = again(ran(0, 0, None), ran(1, 1, 2, pid=3), ran(0, 2, 3, pid=3), ran(2, 3, 4, pid=3))
    samples = [all_committed(0.9, 0, 0), all_committed(5)]
    assert broken(history, samples, allowed=Allowed(cut_off=1)) == [OUT_OF_ORDER, PASSED_OVER]


# ---- deliveries


def test_fifty_starts_without_an_end_are_found() -> None:
    starts = [ran(2, 2 + n / 50, None) for n in range(50)]
    samples = [all_committed(0.9, 0, 0), all_committed(5)]
    history = again(ran(0, 0, 1), ran(1, 1, 2), *starts, ran(2, 3, 4))
    assert broken(history, samples) == [WENT_ON]
    assert broken(history, samples, allowed=Allowed(cut_off=78)) == [WENT_ON]


def test_fifty_starts_without_an_end_in_as_many_processes_are_found() -> None:
    starts = [ran(2, 2 + n / 50, None, pid=10 + n) for n in range(50)]
    samples = [all_committed(0.9, 0, 0), all_committed(5)]
    history = again(ran(0, 0, 1), ran(1, 1, 2), *starts, ran(2, 3, 4))
    assert broken(history, samples, allowed=Allowed(cut_off=49)) == ["L2 cut off in a handler"]
    assert broken(history, samples, allowed=Allowed(cut_off=50)) == []


def test_a_first_delivery_with_attempt_seven_is_found() -> None:
    history = [replace(it, attempt=7) if it.record == ("t", 0, 2) else it for it in CLEAN]
    assert broken(history) == broken(history, allowed=Allowed(attempts=1)) == [ATTEMPTS]


def test_a_stall_of_a_thousand_seconds_is_found() -> None:
    history = again(ran(0, 0, 1), ran(1, 1, 2), ran(2, 1003, 1004))
    assert broken(history, [all_committed(0.9, 0, 0), all_committed(1005)]) == [STALL]


@pytest.mark.parametrize("late", [1000.0, 15.0])
def test_a_partition_that_stands_still_while_the_other_goes_on_is_found(late: float) -> None:
    others = [ran(n, n, n + 1) for n in range(int(late) + 1)]
    history = in_time(*others, ran(0, late, late + 0.5, pid=2, partition=1))
    samples = [all_committed(0, 0, 0), all_committed(late + 5, len(others))]
    assert broken(history, samples, produced=len(others)) == [STALL]


# ---- what raises the bounds, and what holds them


def test_memberships_that_no_fault_explains_are_found() -> None:
    assert broken(memberships_lost=3) == []
    assert broken(memberships_lost=40) == ["memberships lost"]
    assert broken(memberships_lost=40, allowed=Allowed(memberships_lost=40)) == []


def test_a_report_without_figures_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert not Report().show("nothing")
    assert "nothing: no figures" in capsys.readouterr().out
