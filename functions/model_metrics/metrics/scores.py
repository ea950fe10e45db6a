"""Scores of counts: pure. A score that has nothing to count is None."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

Confusion: TypeAlias = Mapping[tuple[str, str], int]
"""Predictions by (actual, predicted)."""


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Of one class against all others, or the mean of all classes."""

    precision: float | None
    recall: float | None
    specificity: float | None
    f1: float | None


@dataclass(frozen=True, slots=True)
class Classification:
    """`mean` is over the classes that feedback has named, each counting the same."""

    predictions: int
    accuracy: float | None
    mean: ClassScores
    classes: Mapping[str, ClassScores]


@dataclass(frozen=True, slots=True)
class Regression:
    """Mean absolute error, mean squared error, and its root."""

    predictions: int
    mae: float | None
    mse: float | None
    rmse: float | None


def classification(confusion: Confusion) -> Classification:
    """Of all that was counted."""
    total = sum(confusion.values())
    right = sum(count for (actual, predicted), count in confusion.items() if actual == predicted)
    actual, predicted = (_sums_by(confusion, place) for place in (0, 1))
    classes = {
        label: _scores(confusion.get((label, label), 0), actual[label], predicted[label], total)
        for label in sorted(actual.keys() | predicted.keys())
    }
    named = [classes[label] for label in sorted({actual for actual, _ in confusion})]
    mean = ClassScores(*(_mean([getattr(one, name) for one in named]) for name in ClassScores.__slots__))
    return Classification(total, _ratio(right, total), mean, classes)


def regression(predictions: int, absolute: float, squared: float) -> Regression:
    """Of sums of errors."""
    if not predictions:
        return Regression(0, None, None, None)
    return Regression(predictions, absolute / predictions, squared / predictions, sqrt(squared / predictions))


def _sums_by(confusion: Confusion, place: int) -> Counter[str]:
    sums: Counter[str] = Counter()
    for pair, count in confusion.items():
        sums[pair[place]] += count
    return sums


def _scores(hits: int, actual: int, predicted: int, total: int) -> ClassScores:
    others = total - actual
    return ClassScores(
        precision=_ratio(hits, predicted),
        recall=_ratio(hits, actual),
        specificity=_ratio(others - (predicted - hits), others),
        f1=_ratio(2 * hits, actual + predicted),
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(values: list[float | None]) -> float | None:
    """Of those that there are."""
    given = [value for value in values if value is not None]
    return sum(given) / len(given) if given else None
