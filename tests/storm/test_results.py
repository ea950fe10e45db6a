"""Hand-made outcomes before the judge of results: each of these breaks one promise, and must not pass."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from commits import Sample
from history import Entry
from results import Look, Outcome, Result, judge_results
from scenario import Report
from test_checkers import SECOND, in_time, ran

WITHOUT = "L1 records without a result"
AGAIN = "L2 results again"
BEYOND_RUNS = "L2 results beyond the runs of their handler"
OF_NO_RECORD = "L2 results of no record"
TOO_EARLY = "L5 committed before their result"
NOT_AT_THE_END = "L9 last looks that aren't at the end of the log"
NOT_SEEN = "commits seen amid the storm"


def result(of: int, partition: int, offset: int) -> Result:
    """Of a record of partition 0."""
    return Result(("t", 0, of), ("out", partition), offset)


def look(at: float, committed: int, *ends: int) -> Look:
    """How much of partition 0 was committed; after that, where the output topic's partitions ended."""
    return Look(
        Sample(int(at * SECOND), {("t", 0): committed}), {("out", n): end for n, end in enumerate(ends)}
    )


RAN = in_time(ran(0, 0, 1), ran(1, 1, 2), ran(2, 2, 3), ran(3, 3, 4))
RESULTS = (result(0, 0, 0), result(1, 1, 0), result(2, 1, 1), result(3, 0, 1))
LOOKS = (look(0, 0, 0, 0), look(1.5, 1, 1, 0), look(3.5, 3, 1, 2), look(5, 4, 2, 2))


def broken(
    looks: Sequence[Look] = LOOKS,
    results: Sequence[Result] = RESULTS,
    *,
    history: Sequence[Entry] = RAN,
    is_once: bool = False,
    letters: Sequence[Result] = (),
) -> list[str]:
    """The promises that it breaks, of four records in one partition."""
    produced = {("t", 0, n) for n in range(4)}
    outcome = Outcome(produced, {("t", 0): 4}, history, looks, results, is_once, letters)
    report = Report(patience=1)
    judge_results(outcome, report, 0)
    return report.broken


@pytest.mark.parametrize("is_once", [False, True])
def test_a_clean_outcome_passes(is_once: bool) -> None:
    assert broken(is_once=is_once) == []


# ---- results


def test_a_record_without_a_result_is_found() -> None:
    assert broken([*LOOKS[:3], look(5, 4, 1, 2)], RESULTS[:3]) == [WITHOUT, TOO_EARLY]


def test_a_lost_record_is_found_though_nothing_says_that_it_is_committed() -> None:
    assert broken(LOOKS[:3], RESULTS[:3]) == [WITHOUT, NOT_AT_THE_END]


def test_no_result_at_all_is_found() -> None:
    assert {"results", WITHOUT, TOO_EARLY} <= set(broken(results=[]))


def test_a_second_result_of_a_record_that_ran_twice_is_one_too_many_only_for_exactly_once() -> None:
    twice = in_time(RAN, ran(1, 4, 4.5, pid=3))
    results = [*RESULTS, result(1, 0, 2)]
    assert broken(results=results, history=twice) == []
    assert broken(results=results, history=twice, is_once=True) == [AGAIN]


def test_a_second_result_of_a_record_that_ran_once_is_found() -> None:
    assert broken(results=[*RESULTS, result(1, 0, 2)]) == [AGAIN, BEYOND_RUNS]


def test_a_result_twice_for_one_record_that_another_one_ran_twice_for_is_found() -> None:
    twice = in_time(RAN, ran(2, 4, 4.5, pid=3))
    assert broken(results=[*RESULTS, result(1, 0, 2)], history=twice) == [BEYOND_RUNS]


def test_a_dead_letter_that_is_written_again_without_a_run_is_none_too_many() -> None:
    *results, last = RESULTS
    assert broken(results=results, letters=[last, last]) == []
    assert broken(results=results) == [WITHOUT, TOO_EARLY]


def test_a_result_of_a_record_that_nobody_sent_is_found() -> None:
    assert OF_NO_RECORD in broken(results=[*RESULTS, replace(RESULTS[0], of=("t", 0, 9))])


# ---- commits


def test_a_commit_whose_result_came_after_it_is_found() -> None:
    looks = [LOOKS[0], LOOKS[1], look(3.5, 3, 1, 1), LOOKS[3]]
    assert broken(looks) == [TOO_EARLY]


def test_a_result_of_another_run_that_was_there_before_the_commit_counts() -> None:
    twice = in_time(RAN, ran(2, 4, 4.5, pid=3))
    late = [*RESULTS, result(2, 0, 9)]
    assert broken(results=late[::-1], history=twice) == []


def test_a_result_in_a_partition_that_was_not_there_yet_comes_too_late() -> None:
    looks = [LOOKS[0], LOOKS[1], look(3.5, 3, 1), LOOKS[3]]
    assert broken(looks) == [TOO_EARLY]


def test_no_look_at_all_is_found() -> None:
    assert broken([]) == [NOT_SEEN, NOT_AT_THE_END]


@pytest.mark.parametrize("committed", [0, 1])
def test_a_commit_that_never_moves_is_found(committed: int) -> None:
    assert broken([look(at, committed, 2, 2) for at in range(500)]) == [NOT_SEEN, NOT_AT_THE_END]


def test_looks_that_all_came_when_it_was_over_are_found() -> None:
    assert broken([LOOKS[0], LOOKS[-1]]) == [NOT_SEEN]
