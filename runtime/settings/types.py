"""Types of settings: how a value is checked, described in messages, and read from an annotation.

A value in YAML must have its type exactly ("5" is no int). An annotation is always text, and a shape's
`from_text` makes the YAML value of it.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from headrace.runtime.settings.durations import (
    DURATION_PATTERN,
    DurationError,
    format_duration,
    parse_duration,
)

# Kubernetes' own grammar. Three digits of exponent are beyond any machine, and cheap to compute.
_QUANTITY = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)(?:([KMGTPE]i|[numkMGTPE]?)|([eE][+-]?[0-9]{1,3}))")
_QUANTITY_SCHEMA = {"type": ["string", "number"], "format": "kubernetes-quantity"}
_LONGEST_QUANTITY = 100
_LARGEST_QUANTITY = 2**63 - 1  # where Kubernetes stops counting too
_UNITS = {
    **{unit: Fraction(10) ** (3 * at) for at, unit in enumerate(("n", "u", "m", "", "k", *"MGTPE"), -3)},
    **{f"{unit}i": Fraction(1024) ** at for at, unit in enumerate("KMGTPE", 1)},
}


def _same(text: str) -> object:
    return text


@dataclass(frozen=True, slots=True)
class Shape:
    """Description of a type: the words for its values, and what they may be in YAML and in an annotation.

    `accepts` are the exact types that YAML may give, none meaning any. `blank` is the value that Go reads as
    not given, so that files written by Nuclio's own tools (`eventTimeout: ""`) mean here what they mean
    there. `item` names one item of a list. `yaml_hint` ends the advice where the value stands in YAML, not in
    an annotation.
    """

    noun: str
    example: str
    accepts: tuple[type, ...] = (str,)
    from_text: Callable[[str], object] = _same
    blank: object = ""
    item: str = ""
    yaml_hint: str = ""
    show_limit: Callable[[Any], str] = str


def _int_from_text(text: str) -> object:
    try:
        return int(text.strip())
    except ValueError:
        return text  # stays text, which the check of the type then refuses


def _flag_from_text(text: str) -> object:
    # The spellings of Go's ParseBool, whatever their case.
    spellings = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    return spellings.get(text.strip().lower(), text)


def _texts_from_text(text: str) -> object:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _ints_from_text(text: str) -> object:
    return [_int_from_text(part) for part in text.split(",")] if text.strip() else []


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value  # Python code and defaults give seconds
    try:
        return parse_duration(value)
    except DurationError:
        raise PydanticCustomError("duration", "is not a duration") from None


def _amount(value: object) -> Fraction:
    text = str(value)
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_QUANTITY else None
    if found is None:
        raise PydanticCustomError("quantity", "is not a quantity")
    number, unit, exponent = found.groups(default="")
    return Fraction(number + exponent) * _UNITS[unit]


def _bytes(value: object) -> int:
    # Rounded up, as Kubernetes does.
    return min(math.ceil(_amount(value)), _LARGEST_QUANTITY)


def _quantity(value: object) -> str:
    _amount(value)
    return str(value)


def _window(value: object) -> object:
    text = str(value)
    if isinstance(value, str) and text.isascii() and text.isdigit():
        return _int_from_text(text)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_tuple(value: object) -> object:
    # Models are frozen, so what they hold is frozen too.
    return tuple(value) if isinstance(value, list) else value


def _unique(values: tuple[object, ...]) -> tuple[object, ...]:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"names {value} twice; once is enough")
        seen.add(value)
    return values


_UNQUOTED = ", without quotes"

DURATION = Shape("a duration", "something like 10s or 1m30s", show_limit=format_duration)
TEXT = Shape("a string", "text", yaml_hint=", in quotes where it looks like a number")
COUNT = Shape("an int", "a whole number", (int,), _int_from_text, None, yaml_hint=_UNQUOTED)
WINDOW = Shape("an int", "a whole number", (int, float, str), _int_from_text)
QUANTITY = Shape("a quantity", "something like 512Mi or 1.5G", (str, int, float))
FLAG = Shape("a bool", "true or false", (bool,), _flag_from_text, None, yaml_hint=_UNQUOTED)
TEXTS = Shape("a list of strings", "lines such as `- one`", (list,), _texts_from_text, [], "a string")
COUNTS = Shape("a list of ints", "lines such as `- 0`", (list,), _ints_from_text, [], "an int")
CHOICE = Shape("a string", "one of the known words", ())
ANYTHING = Shape("a value", "any value", (), blank=None)

Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN}),
    DURATION,
]
Text = Annotated[str, TEXT]
Count = Annotated[int, COUNT]
WindowSize = Annotated[  # Nuclio takes 5, "5" and 5.0 here
    int,
    BeforeValidator(_window),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0}),
    WINDOW,
]
Quantity = Annotated[  # kept as it is written
    str, BeforeValidator(_quantity), WithJsonSchema(_QUANTITY_SCHEMA), QUANTITY
]
MemoryBytes = Annotated[
    int,
    BeforeValidator(_bytes),
    WithJsonSchema(_QUANTITY_SCHEMA),
    QUANTITY,
]
Flag = Annotated[bool, FLAG]
Texts = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1)], ...],
    BeforeValidator(_as_tuple),
    AfterValidator(_unique),
    TEXTS,
]
Counts = Annotated[
    tuple[Annotated[int, Ge(0), Le(2**31 - 1)], ...],
    BeforeValidator(_as_tuple),
    AfterValidator(_unique),
    COUNTS,
]
Anything = Annotated[Any, ANYTHING]


def spelled(spellings: dict[str, str] | None = None) -> BeforeValidator:
    """Return a validator for a choice that is read whatever its case, with other spellings for some words."""
    known = spellings or {}

    def _spell(value: object) -> object:
        return known.get(value.lower(), value.lower()) if isinstance(value, str) else value

    return BeforeValidator(_spell)
