"""Check of one written value against its declaration, and the words for what is wrong with it."""

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


class NotAcceptedError(ValueError):
    """A value is refused. Each fault is the place inside the value (list indexes) and one line."""

    def __init__(self, faults: Iterable[tuple[tuple[int, ...], str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(message for _, message in self.faults))


def checked(
    declared: DeclaredSetting, value: object, *, is_quoted: bool = False, is_hidden: bool = False
) -> Any:
    """Return the Python value for what was written. Raises NotAcceptedError, which says what is wrong.

    `is_quoted` is for annotations and variables, which are text by nature: no advice to leave out the quotes.
    `is_hidden`: no message shows the value, whatever the setting.
    """
    shape, is_secret = declared.shape, declared.setting.secret or is_hidden
    if is_quoted:  # its quotes, if any, are no mistake
        shape = replace(shape, yaml_hint="")
    if value is None:
        raise NotAcceptedError([((), f"nothing is written; expected {shape.noun}, or no such key")])
    if shape.accepts and type(value) not in shape.accepts:  # exactly: true is no int
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
    """Return a setting's value as a file says it. The only floats among settings are durations."""
    if isinstance(value, tuple):
        return list(value)
    return format_duration(value) if isinstance(value, float) else value


def limits_of(declared: DeclaredSetting) -> str:
    """Return the limits of a value in words: `more than 0s`, `at least 0, at most 256`; "" without any."""
    found = (
        f"{words} {declared.shape.show_limit(getattr(fact, name))}"
        for fact in declared.field.metadata
        for words, name in _LIMITS.values()
        if hasattr(fact, name)
    )
    return ", ".join(found)


@cache  # an adapter takes far longer to make than to use
def _adapter(model: type[Settings], own_name: str) -> TypeAdapter[Any]:
    field = model.model_fields[own_name]
    kind: Any = Annotated[(field.annotation, *field.metadata)]
    return TypeAdapter(kind, config=ConfigDict(strict=True, hide_input_in_errors=True))


def _index(fault: ErrorDetails) -> tuple[int, ...]:
    return tuple(part for part in fault["loc"] if isinstance(part, int))


def _worded(fault: ErrorDetails, shape: Shape, *, is_secret: bool) -> str:
    # Pydantic words its faults for programmers: these are for people who write YAML.
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
    """Return a value as a message may show it: never a secret, never the inside of a collection."""
    if is_secret:
        return "the value (not shown)"
    if isinstance(value, (dict, list, tuple)):
        return "a mapping" if isinstance(value, dict) else "the list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]  # as YAML spells them
    text = repr(masked(value) if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
