"""What a response predicts: of each request of its batch, a class or a number."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.functions.model_metrics.messages.storable import is_storable


def label_of(value: object) -> str:
    """The same for 1, 1.0 and "1". Raises ValueError for what names no class."""
    match value:
        case bool():
            return str(value).lower()
        case str() if is_storable(value):
            return value
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return str(int(value)) if value.is_integer() else repr(value)
    raise ValueError(f"{value!r} names no class")


def predictions_of(document: Any) -> list[Any]:
    """One scalar for each request of the batch: what the first output says, or the class it rates highest.

    A first output of shape [n] or [n, 1] has n predictions, one of [n, c] the scores of c classes for each:
    the class is its place among them. Empty where the response has no such output.
    """
    try:
        output = document["outputs"][0]
        values, shape = list(_flat(output["data"])), [int(size) for size in output["shape"]]
    except (LookupError, TypeError, ValueError):
        return []
    count = shape[0] if shape else 1
    if count < 1 or not values or len(values) % count:
        return []
    width = len(values) // count
    rows = [values[start : start + width] for start in range(0, len(values), width)]
    try:
        return [row[0] if width == 1 else _highest(row) for row in rows]
    except TypeError:  # texts beside numbers
        return []


def class_of(prediction: Any) -> str | None:
    """Its label, None where it names no class."""
    try:
        return label_of(prediction)
    except ValueError:
        return None


def number_of(prediction: Any) -> float | None:
    """None where it is none."""
    is_number = isinstance(prediction, int | float) and not isinstance(prediction, bool)
    return float(prediction) if is_number else None


def _flat(data: Any) -> Iterator[Any]:
    """JSON may nest it as the shape says."""
    for element in data:
        if isinstance(element, list):
            yield from _flat(element)
        else:
            yield element


def _highest(scores: Sequence[Any]) -> str:
    """Text: the place of a class is a name, and no number to be measured."""
    return str(max(range(len(scores)), key=scores.__getitem__))
