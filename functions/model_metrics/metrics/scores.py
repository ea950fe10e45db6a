"""Scores of classifiers and regressors from counts and sums: pure. A score of nothing (0/0) is None."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

Confusion: TypeAlias = Mapping[tuple[str, str], int]
"""Confusion matrix: counts of predictions by (actual, predicted)."""


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Scores of one class against all others, or their mean over classes."""

    precision: float | None
    recall: float | None
    specificity: float | None
    f1: float | None


@dataclass(frozen=True, slots=True)
class Classification:
    """Scores of a classifier. `mean` is the unweighted mean over the classes that feedback has named."""

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
    """Return the scores of a confusion matrix."""
    total = sum(confusion.values())
    right = sum(count for (actual, predicted), count in confusion.items() if actual == predicted)
    actual, predicted = (_sums_by(confusion, place) for place in (0, 1))
    classes = {
        label: _scores(confusion.get((label, label), 0), actual[label], predicted[label], total)
        for label in sorted(actual.keys() | predicted.keys())
    }
    # The mean is over the classes that feedback has named: any other has no recall.
    named = [classes[label] for label in sorted({actual for actual, _ in confusion})]
    mean = ClassScores(*(_mean([getattr(one, name) for one in named]) for name in ClassScores.__slots__))
    return Classification(total, _ratio(right, total), mean, classes)


def regression(predictions: int, absolute: float, squared: float) -> Regression:
    """Return the scores of `predictions` errors: `absolute` is their sum, `squared` that of their squares."""
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
        # True negatives by all negatives.
        specificity=_ratio(others - (predicted - hits), others),
        # Equal to the harmonic mean of precision and recall, and defined also where one of them isn't.
        f1=_ratio(2 * hits, actual + predicted),
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(values: list[float | None]) -> float | None:
    """Return the mean of the values that aren't None."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
