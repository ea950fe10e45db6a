"""How a setting is declared: once, with everything that validation, schema and docs need.

A model derives from Settings, each field is `setting(...)` or `section(...)`, its type one of
`shapes`. `headrace.runtime.settings.reader` reads a file's mapping into such a model.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from headrace.runtime.settings.durations import format_duration
from headrace.runtime.settings.types import Shape

ANNOTATION_PREFIX = "nuclio.io/"
# Only what begins so is for triggers alone: a typing error in one of them must not pass unseen.
CHECKED_ANNOTATIONS = ("nuclio.io/kafka-", "nuclio.io/v3iostream-")


def _has_effect(_value: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a setting is, besides its type and default. Found as a field's `json_schema_extra`.

    `annotation` is the key after `nuclio.io/`; `old_annotation` a whole key that Nuclio once used. `built`
    False refuses the setting, `built_values` all values but these. `required` says, in the words of the
    message, what must be given, unless there is the key `instead` beside it. `may_be_path`: a secret that
    names a file by its full path stands for its content. `quotes_variables`: a regular expression, in which
    a variable stands for its text. `no_effect` says why a value changes nothing here, `idle` why this one
    doesn't, where others do. `refuses_nothing`: a key with nothing below it is a mistake, not as if it was
    not there. `environment` is a variable that stands in for a missing value, `option` what a command line
    says instead of the file. `absent` says what the default means where it is no value that a file could
    give. `example` is what a full example says instead of the default; `in_examples` False leaves the
    setting out there.
    """

    key: str
    effect: str
    annotation: str = ""
    old_annotation: str = ""
    environment: str = ""
    option: str = ""
    unit: str = ""
    secret: bool = False
    may_be_path: bool = False
    quotes_variables: bool = False
    built: bool = True
    built_values: tuple[object, ...] = ()
    required: str = ""
    instead: str = ""
    no_effect: str = ""
    idle: Callable[[object], str] = _has_effect
    refuses_nothing: bool = False
    absent: str = ""
    example: object = None
    in_examples: bool = True

    def annotation_keys(self) -> tuple[str, ...]:
        """The whole annotation keys that set this, the one that wins first."""
        current = (ANNOTATION_PREFIX + self.annotation,) if self.annotation else ()
        return current + ((self.old_annotation,) if self.old_annotation else ())

    def __call__(self, schema: JsonDict) -> None:
        """Pydantic's hook: put the extra facts into the field's JSON schema."""
        facts: JsonDict = {
            "annotation": next(iter(self.annotation_keys()), ""),
            "unit": self.unit,
            "writeOnly": self.secret,
            "notBuilt": not self.built,
            "builtValues": [str(value) for value in self.built_values],
            "noEffect": self.no_effect,
        }
        schema.update({name: fact for name, fact in facts.items() if fact})
        default = schema.get("default")
        if isinstance(default, float):  # only durations are floats here, and files write them as text
            schema["default"] = format_duration(default)


def setting(key: str, default: object = ..., *, effect: str, **facts: Any) -> Any:
    """A field whose YAML key is `key`. `facts` are Setting's; no default means required."""
    if default is ...:
        facts.setdefault("required", "give it a value")
    declared = Setting(key, effect, **facts)
    return Field(
        default,
        alias=key,
        description=effect,
        repr=not declared.secret,
        json_schema_extra=declared,
    )


def section(key: str, model: type["Settings"], *, effect: str) -> Any:
    """A field that is a mapping with settings of its own."""
    return Field(default_factory=model, alias=key, description=effect, json_schema_extra=Setting(key, effect))


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition between settings: `check(settings, trigger)` returns what is wrong, or "".

    It runs only where everything in `reads` was read without a problem. Names are dotted Python
    names (`sasl.user`); `trigger.` names the trigger's own fields. `about` is where it points. The
    docstring of `check` is the rule as the configuration reference prints it.
    """

    about: str
    reads: tuple[str, ...]
    check: Callable[[Any, Any], str]
    is_error: bool = True


@dataclass(frozen=True)
class KeysLike(Mapping[str, str]):
    """For `Settings.ignored`: every key that matches `pattern` as a whole, which nobody can list."""

    pattern: re.Pattern[str]
    why: str

    def __getitem__(self, key: str) -> str:
        if self.pattern.fullmatch(key):
            return self.why
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Settings(BaseModel):
    """Base of every group of settings: frozen, strict about types, silent about its inputs."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        defer_build=True,
        extra="forbid",
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )
    rules: ClassVar[tuple[Rule, ...]] = ()
    # Keys that Nuclio knows and that mean nothing here: the key, and why.
    ignored: ClassVar[Mapping[str, str]] = {}
    idle_fields: ClassVar[Mapping[str, str]] = {}
    """Of a kind of trigger: what of the fields beside `attributes` has no effect, and why."""
    has_fixed_replicas: ClassVar[bool] = False
    """Of a kind of trigger: its source is shared out by a number of replicas that all of them know."""

    @classmethod
    def fallbacks(cls, trigger: Any) -> Mapping[str, object]:  # noqa: ARG003 - for overriding
        """Values, by Python name, for settings given nowhere, taken from the trigger's fields."""
        return {}


Model = TypeVar("Model", bound=Settings)


@dataclass(frozen=True, slots=True)
class DeclaredSetting:
    """One setting of a model, found again: `name` in Python, dotted; `keys` in YAML."""

    model: type[Settings]
    name: str
    keys: tuple[str, ...]
    field: FieldInfo
    setting: Setting
    section: type[Settings] | None

    @property
    def own_name(self) -> str:
        """The field's name in `model`: the last part of `name`."""
        return self.name.rpartition(".")[2]

    @property
    def shape(self) -> Shape:
        """What a value looks like. Only for settings that are no section."""
        return next(fact for fact in self.field.metadata if isinstance(fact, Shape))


def fields_of(model: type[Settings], prefix: DeclaredSetting | None = None) -> Iterator[DeclaredSetting]:
    """The model's own settings and sections, in the order in which they are declared."""
    for name, field in model.model_fields.items():
        declared = field.json_schema_extra
        assert isinstance(declared, Setting), f"{model.__name__}.{name} is not declared by setting()"
        kind: Any = field.annotation
        is_section = isinstance(kind, type) and issubclass(kind, Settings)
        yield DeclaredSetting(
            model,
            f"{prefix.name}.{name}" if prefix else name,
            (*prefix.keys, declared.key) if prefix else (declared.key,),
            field,
            declared,
            kind if is_section else None,
        )


def settings_of(model: type[Settings], prefix: DeclaredSetting | None = None) -> Iterator[DeclaredSetting]:
    """Every setting of the model, those in its sections included, sections themselves not."""
    for declared in fields_of(model, prefix):
        if declared.section is None:
            yield declared
        else:
            yield from settings_of(declared.section, declared)


def annotation_keys(model: type[Settings]) -> set[str]:
    """Every whole annotation key that sets something in the model."""
    return {key for declared in settings_of(model) for key in declared.setting.annotation_keys()}


def without_annotations(model: type[Settings]) -> type[Settings]:
    """The model where no annotation sets anything, in its sections neither."""
    changed: dict[str, Any] = {}
    for declared in fields_of(model):
        info = copy(declared.field)
        info.json_schema_extra = replace(declared.setting, annotation="", old_annotation="")
        if declared.section is not None:
            info.annotation = info.default_factory = without_annotations(declared.section)
        changed[declared.own_name] = (info.annotation, info)
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **changed)


def with_annotations(model: type[Model], annotations: Mapping[str, str]) -> type[Model]:
    """The model with annotation keys of its user's own, after `nuclio.io/`, by field."""
    changed: dict[str, Any] = {}
    for name, annotation in annotations.items():
        info = copy(model.model_fields[name])
        declared = cast("Setting", info.json_schema_extra)
        info.json_schema_extra = replace(declared, annotation=annotation)
        changed[name] = (info.annotation, info)
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **changed)
