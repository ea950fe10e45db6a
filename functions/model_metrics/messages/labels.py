"""How the name of a class is written, whether a model says it as text, as a number or as a float."""

import math

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
