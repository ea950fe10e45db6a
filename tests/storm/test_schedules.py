"""What is compared with Nuclio's parser: a difference without a word is none that passes."""

import random

import pytest
from random_schedules import Case, random_case
from schedules import Answer, compared, our_answer

SPRING = 1_774_738_800  # 2026-03-29T00:00 in Berlin


@pytest.mark.parametrize(
    ("text", "zone"), [("0 9 * * *", "Europe/Berlin"), ("30 2 * * *", "Europe/Berlin"), ("*  * * * *", "UTC")]
)
def test_what_nuclio_does_otherwise_is_equal_noted_or_a_failure(text: str, zone: str) -> None:
    case = Case(text, zone, (SPRING,))
    ours = our_answer(case)
    assert compared(case, ours, ours) == "equal"
    assert not compared(case, Answer("", [[SPRING + 1] * 6]), ours)
    assert not compared(case, ours, Answer("is no schedule: it has a fault of ours", []))
    assert not compared(case, Answer("end of range", []), ours)


def test_one_seed_has_the_same_schedules_each_time() -> None:
    first, second = (
        [random_case(chance) for _ in range(9)] for chance in (random.Random(7), random.Random(7))
    )
    assert first == second
