"""Checks one written value against its declaration, and words what is wrong with it."""

import difflib
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from headrace.runtime.errors import masked
from headrace.runtime.settings.declare import DeclaredSetting, Settings
from headrace.runtime.settings.durations import format_duration
from headrace.runtime.settings.types import Shape

NOT_BUILT = "is known, but not built into this version of Headrace yet"
_LIMITS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_LONGEST_SHOWN = 60
_MOST_SUGGESTIONS = 100


class NotAcceptedError(ValueError):
    """A value is refused. Each fault is the place inside the value (list indexes) and one line."""

    def __init__(self, faults: Iterable[tuple[tuple[int, ...], str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(message for _, message in self.faults))


def nearest(key: str, known: Iterable[str]) -> str:
    """The known key that looks most like `key`, upper and lower case alike."""
    spellings = {name.lower(): name for name in known}
    found = difflib.get_close_matches(key.lower(), spellings, n=1, cutoff=0.0)
    return spellings[found[0]] if found else ""


class Suggestions:
    """Which known keys were meant by the first unknown ones of a file: each takes a millisecond to find."""

    def __init__(self) -> None:
        self._left = _MOST_SUGGESTIONS

    def unknown(self, key: str, known: Iterable[str], *, called: tuple[str, str] = ("key", "key")) -> str:
        """What is wrong with it, in words."""
        if self._left == 0:
            return f"unknown {called[0]}, one of too many to look for the nearest known one"
        self._left -= 1
        return f"unknown {called[0]}; the nearest known {called[1]} is {nearest(key, known)}"


def checked(
    declared: DeclaredSetting, value: object, *, is_quoted: bool = False, is_hidden: bool = False
) -> Any:
    """The Python value for what was written. NotAcceptedError says what is wrong with it.

    `is_quoted` is for annotations and variables, which are text by nature: no advice to leave out the
    quotes. `is_hidden`: no message shows the value, whatever the setting.
    """
    shape, is_secret = declared.shape, declared.setting.secret or is_hidden
    if is_quoted:
        shape = replace(shape, yaml_hint="")
    if value is None:
        raise NotAcceptedError([((), f"nothing is written; expected {shape.noun}, or no such key")])
    if shape.accepts and type(value) not in shape.accepts:
        raise NotAcceptedError([((), _wrong_type(value, shape, is_secret=is_secret))])
    try:
        accepted = _adapter(declared.model, declared.own_name).validate_python(value)
    except ValidationError as refused:
        faults = refused.errors(include_url=False)
        raise NotAcceptedError(
            (_index(fault), _worded(fault, shape, is_secret=is_secret)) for fault in faults
        ) from None
    _refuse_unbuilt(declared, accepted)
    return accepted


def _refuse_unbuilt(declared: DeclaredSetting, accepted: object) -> None:
    built = declared.setting.built_values
    if built and accepted not in built:
        choice = ", ".join(str(as_written(value)) for value in built)
        message = f"{_shown(as_written(accepted), is_secret=False)} {NOT_BUILT}; built: {choice}"
        raise NotAcceptedError([((), message)])


def as_written(value: object) -> object:
    """A setting's value as a file says it. The only floats among settings are durations."""
    if isinstance(value, tuple):
        return list(value)
    return format_duration(value) if isinstance(value, float) else value


def limits_of(declared: DeclaredSetting) -> str:
    """The limits of a value in words: `more than 0s`, `at least 0, at most 256`; "" without any."""
    found = (
        f"{words} {declared.shape.show_limit(getattr(fact, name))}"
        for fact in declared.field.metadata
        for words, name in _LIMITS.values()
        if hasattr(fact, name)
    )
    return ", ".join(found)


@cache
def _adapter(model: type[Settings], own_name: str) -> TypeAdapter[Any]:
    field = model.model_fields[own_name]
    kind: Any = Annotated[(field.annotation, *field.metadata)]
    return TypeAdapter(kind, config=ConfigDict(strict=True, hide_input_in_errors=True))


def _index(fault: ErrorDetails) -> tuple[int, ...]:
    return tuple(part for part in fault["loc"] if isinstance(part, int))


def _worded(fault: ErrorDetails, shape: Shape, *, is_secret: bool) -> str:
    kind, facts, shown = fault["type"], fault.get("ctx", {}), _shown(fault["input"], is_secret)
    if kind in _LIMITS:
        words, name = _LIMITS[kind]
        return f"{shown} is out of range; expected {words} {shape.show_limit(facts[name])}"
    if kind == "literal_error":
        return f"{shown} is not known here; expected {facts['expected']}"
    if kind == "value_error":
        return f"{shown} {facts['error']}"
    if kind == "string_too_short":
        return "an empty string is no value; give it a value or remove it"
    if fault["loc"]:
        return f"{shown} is not {shape.item}"
    return _wrong_type(fault["input"], shape, is_secret=is_secret)


def _wrong_type(value: object, shape: Shape, *, is_secret: bool) -> str:
    return f"{_shown(value, is_secret)} is not {shape.noun}; expected {shape.example}{shape.yaml_hint}"


def _shown(value: object, is_secret: bool) -> str:
    """A value as a message may show it: never a secret, never the inside of a collection."""
    if is_secret:
        return "the value (not shown)"
    if isinstance(value, (dict, list, tuple)):
        return "a mapping" if isinstance(value, dict) else "the list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]
    text = repr(masked(value) if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
