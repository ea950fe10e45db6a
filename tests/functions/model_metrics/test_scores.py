"""Scores are what their textbooks say, and nothing where there is nothing."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.functions.model_metrics.metrics.scores import (
    ClassScores,
    Regression,
    classification,
    regression,
)


def test_two_classes_as_a_textbook_has_them() -> None:
    found = classification({("yes", "yes"): 40, ("yes", "no"): 10, ("no", "yes"): 5, ("no", "no"): 45})
    assert found.predictions == 100
    assert found.accuracy == pytest.approx(0.85)
    yes = found.classes["yes"]
    assert yes.precision == pytest.approx(40 / 45)
    assert yes.recall == pytest.approx(0.8)
    assert yes.specificity == pytest.approx(0.9)
    assert yes.f1 == pytest.approx(2 * (40 / 45) * 0.8 / (40 / 45 + 0.8))
    assert found.mean.recall == pytest.approx((0.8 + 0.9) / 2)


def test_a_class_that_nobody_predicts_has_no_precision_and_one_that_never_was_has_no_recall() -> None:
    found = classification({("a", "b"): 2})
    assert found.accuracy == 0
    assert found.classes["a"] == ClassScores(precision=None, recall=0, specificity=None, f1=0)
    assert found.classes["b"] == ClassScores(precision=0, recall=None, specificity=0, f1=0)
    assert found.mean == found.classes["a"]


def test_nothing_has_no_scores() -> None:
    nothing = ClassScores(None, None, None, None)
    found = classification({})
    assert (found.predictions, found.accuracy, found.mean, found.classes) == (0, None, nothing, {})
    assert regression(0, 0, 0) == Regression(0, None, None, None)


labels = st.sampled_from(["a", "b", "c", "d"])


@given(st.dictionaries(st.tuples(labels, labels), st.integers(1, 50), min_size=1))
def test_scores_are_shares_and_micro_averages_agree(confusion: dict[tuple[str, str], int]) -> None:
    found = classification(confusion)
    for scores in found.classes.values():
        for value in (scores.precision, scores.recall, scores.specificity, scores.f1):
            assert value is None or 0 <= value <= 1
    right = sum(
        (scores.recall or 0) * sum(count for (actual, _), count in confusion.items() if actual == label)
        for label, scores in found.classes.items()
    )
    assert found.accuracy == pytest.approx(right / found.predictions)


@given(st.lists(st.floats(-100, 100), min_size=1))
def test_errors_are_means(errors: list[float]) -> None:
    count = len(errors)
    found = regression(count, sum(map(abs, errors)), sum(error * error for error in errors))
    assert found.mae == pytest.approx(sum(map(abs, errors)) / count)
    assert found.rmse == pytest.approx(sqrt(sum(error * error for error in errors) / count))
    assert (found.mae or 0) <= (found.rmse or 0) + 1e-9
