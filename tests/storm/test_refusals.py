"""Hand-made outcomes before the judge of refused messages, and of stalls."""

from collections.abc import Sequence
from typing import Any

import pytest
from refusals import Refusals, judge_refusals
from results import Result
from scenario import Report
from stalls import is_named
from test_checkers import in_time, killed, ran

DOOMED = {("t", 0, 1)}
WRITTEN = (Result(("t", 0, 0), ("out", 0), 0), Result(("t", 0, 2), ("out", 0), 1))
LETTER = Result(("t", 0, 1), ("graves", 0), 0)
RAN = in_time(ran(0, 0, 1), ran(1, 1, 2), ran(1, 2, 3), ran(2, 3, 4))
ROW = {"limitedBy": "", "isInProblems": False, "oldestUnackedSeconds": 0.0}


def broken(
    written: Sequence[Result] = WRITTEN, letters: Sequence[Result] = (LETTER,), *, is_once: bool = False
) -> list[str]:
    """The promises that it breaks, of three records, the second of which is refused."""
    report = Report(patience=1)
    judge_refusals(Refusals(DOOMED, written, letters, RAN, 0, is_once=is_once), report, 0)
    return report.broken


@pytest.mark.parametrize("is_once", [False, True])
def test_each_refused_record_as_a_dead_letter_passes(is_once: bool) -> None:
    assert broken(is_once=is_once) == []


def test_a_refused_record_without_its_dead_letter_is_found() -> None:
    assert broken(letters=()) == ["L1 doomed records that are no dead letters"]


def test_a_dead_letter_of_a_good_record_is_found() -> None:
    other = Result(("t", 0, 2), ("graves", 0), 1)
    assert broken(letters=(LETTER, other)) == ["L8 dead letters of good records"]


def test_a_good_record_whose_worker_was_killed_twice_may_be_a_dead_letter() -> None:
    history = [*RAN, *killed(2, 5, pid=2), *killed(2, 6, pid=3)]
    report = Report(patience=1)
    other = Result(("t", 0, 2), ("graves", 0), 1)
    judge_refusals(Refusals(DOOMED, WRITTEN[:1], (LETTER, other), history, 0), report, 0)
    assert report.broken == []


def test_a_second_dead_letter_of_a_record_is_found_where_nothing_was_killed() -> None:
    assert broken(letters=(LETTER, LETTER)) == ["L8 dead letters again"]


def test_a_refused_record_that_was_written_all_the_same_is_found() -> None:
    assert broken((*WRITTEN, Result(("t", 0, 1), ("out", 0), 2))) == ["L8 doomed records that were written"]


def test_a_message_twice_is_found_where_each_is_promised_once() -> None:
    again = (*WRITTEN, Result(("t", 0, 0), ("out", 0), 2))
    assert broken(again) == []
    assert broken(again, is_once=True) == ["L2 messages again"]


@pytest.mark.parametrize(
    "named", [{"limitedBy": "maxInFlight"}, {"isInProblems": True}, {"oldestUnackedSeconds": 1.5}]
)
def test_a_partition_that_says_why_it_stands_is_no_silent_stall(named: dict[str, Any]) -> None:
    assert is_named(ROW | named)


@pytest.mark.parametrize("silent", [{}, {"oldestUnackedSeconds": 60.0}])
def test_a_partition_that_says_nothing_for_long_is_a_silent_stall(silent: dict[str, Any]) -> None:
    assert not is_named(ROW | silent)
