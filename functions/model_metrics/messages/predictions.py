"""Predictions in a response: one class or number for each request of its batch."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.functions.model_metrics.messages.storable import is_storable


def label_of(value: object) -> str:
    """Return a class's label, the same for 1, 1.0 and "1". Raises ValueError if `value` names no class."""
    match value:
        # Before int, of which bool is a subclass.
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
    """Return one scalar for each request of the batch, from the response's first output.

    An output of shape [n] or [n, 1] has n predictions; one of shape [n, c] has the scores of c classes for
    each, and the prediction is the index of the highest. Empty if the response has no such output.
    """
    try:
        output = document["outputs"][0]
        values, shape = list(_flat(output["data"])), [int(size) for size in output["shape"]]
    except (LookupError, TypeError, ValueError):
        return []
    count = shape[0] if shape else 1
    # The shape doesn't fit the data.
    if count < 1 or not values or len(values) % count:
        return []
    width = len(values) // count
    rows = [values[start : start + width] for start in range(0, len(values), width)]
    try:
        return [row[0] if width == 1 else _highest(row) for row in rows]
    except TypeError:  # texts and numbers can't be compared
        return []


def class_of(prediction: Any) -> str | None:
    """Return the label of a prediction; None if it names no class."""
    try:
        return label_of(prediction)
    except ValueError:
        return None


def number_of(prediction: Any) -> float | None:
    """Return a prediction as a float; None if it is no number."""
    # bool is a subclass of int, but a truth value has no distance from a number.
    is_number = isinstance(prediction, int | float) and not isinstance(prediction, bool)
    return float(prediction) if is_number else None


def _flat(data: Any) -> Iterator[Any]:
    """Yield the elements of data that may be nested by shape, as the protocol's JSON allows."""
    for element in data:
        if isinstance(element, list):
            yield from _flat(element)
        else:
            yield element


def _highest(scores: Sequence[Any]) -> str:
    """Return the index of the highest score, as text: it names a class and is no number to compute with."""
    # Of equal scores the first one counts.
    return str(max(range(len(scores)), key=scores.__getitem__))
