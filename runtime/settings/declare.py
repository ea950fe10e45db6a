"""Declaration of a setting: once, with everything that validation, schema and docs need.

To add one, add a field to a model, a class that derives from Settings (this one is invented):

    max_page_bytes: Annotated[Count, Ge(1)] = setting(
        "maxPage", 1_000_000, unit="bytes", effect="Too low ..., too high ...",
    )

The field's type is one of `headrace.runtime.settings.types`, with limits by `annotated_types`; `setting` says
the rest, `section` makes a field that is a mapping with settings of its own. Conditions between settings
stand in the model's `rules`. `headrace.runtime.settings.reader` reads a file's mapping into such a model;
JSON schema, reference page and full examples are generated from it.
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
    """Facts about a setting besides its type and default. Found as a field's `json_schema_extra`."""

    key: str
    """Key in YAML, in camelCase."""
    effect: str
    """Sentence for the docs: what goes wrong when the value is too low or too high."""
    annotation: str = ""
    """Annotation that sets it too: the key after `nuclio.io/`."""
    old_annotation: str = ""
    """Whole key of an annotation that Nuclio once used."""
    environment: str = ""
    """Environment variable that stands in for a missing value."""
    option: str = ""
    """Option of the command line that gives the value instead of the file."""
    unit: str = ""
    """Unit of the value in Python, for the docs."""
    secret: bool = False
    """Whether no message and no output may show the value."""
    may_be_path: bool = False
    """Whether a secret that is the full path of a file stands for the file's content."""
    quotes_variables: bool = False
    """Whether the value is a regular expression, in which a variable stands for its text."""
    built: bool = True
    """False: the setting is known to Nuclio, and refused here."""
    built_values: tuple[object, ...] = ()
    """Values that are built, where some are refused; empty: all are."""
    required: str = ""
    """Words of the message that asks for it; empty: there is a default."""
    required_unless: str = ""
    """Key beside it that makes a required setting unnecessary."""
    no_effect: str = ""
    """Why a value changes nothing here; empty: it has an effect."""
    idle: Callable[[object], str] = _has_effect
    """Says of a value why it changes nothing here, where other values do."""
    refuses_nothing: bool = False
    """Whether a key with nothing below it is a mistake, not as if it was not there."""
    absent: str = ""
    """Meaning of the default, where it is no value that a file could give."""
    example: object = None
    """Value in full examples, instead of the default."""
    in_examples: bool = True
    """Whether full examples have the setting."""

    def annotation_keys(self) -> tuple[str, ...]:
        """Return the whole annotation keys that set this, the one that wins first."""
        current = (ANNOTATION_PREFIX + self.annotation,) if self.annotation else ()
        return current + ((self.old_annotation,) if self.old_annotation else ())

    def __call__(self, schema: JsonDict) -> None:
        """Put the extra facts into the field's JSON schema: pydantic calls this as `json_schema_extra`."""
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
    """Declare a field whose YAML key is `key`. `facts` are Setting's; no default means required."""
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
    """Declare a field that is a mapping with settings of its own."""
    return Field(default_factory=model, alias=key, description=effect, json_schema_extra=Setting(key, effect))


@dataclass(frozen=True, slots=True)
class Rule:
    """Condition between settings of one model, or between them and the fields of their trigger."""

    about: str
    """Setting that the message points at, by its dotted Python name (`sasl.user`)."""
    reads: tuple[str, ...]
    """Settings that `check` reads, which runs only where none of them had a problem.

    A name that begins with `trigger.` is that of a field of the trigger.
    """
    check: Callable[[Any, Any], str]
    """Returns what is wrong with (settings, trigger), or "". Its docstring is the rule in the reference."""
    is_error: bool = True
    """False: the message is a notice, no mistake."""


@dataclass(frozen=True)
class KeysLike(Mapping[str, str]):
    """Keys for `Settings.ignored` that nobody can list: all that match `pattern` as a whole."""

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
    """Base of every model of settings: frozen, strict about types, silent about its inputs."""

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
    """Conditions between the model's settings."""
    ignored: ClassVar[Mapping[str, str]] = {}
    """Keys that Nuclio knows and that mean nothing here, with the reason why."""
    idle_fields: ClassVar[Mapping[str, str]] = {}
    """Fields beside `attributes` that have no effect for this kind of trigger, with the reason why."""
    has_fixed_replicas: ClassVar[bool] = False
    """Whether this kind's source is shared out by a number of replicas that all of them know."""

    @classmethod
    def fallbacks(cls, trigger: Any) -> Mapping[str, object]:  # noqa: ARG003 - for overriding
        """Return values, by Python name, for settings given nowhere, taken from the trigger's fields."""
        return {}


Model = TypeVar("Model", bound=Settings)


@dataclass(frozen=True, slots=True)
class DeclaredSetting:
    """A setting or section as its model declares it: `name` in Python, dotted; `keys` in YAML."""

    model: type[Settings]
    name: str
    keys: tuple[str, ...]
    field: FieldInfo
    setting: Setting
    section: type[Settings] | None

    @property
    def own_name(self) -> str:
        """Name of the field in `model`: the last part of `name`."""
        return self.name.rpartition(".")[2]

    @property
    def shape(self) -> Shape:
        """Description of its type. Only for settings that are no section."""
        return next(fact for fact in self.field.metadata if isinstance(fact, Shape))


def fields_of(model: type[Settings], prefix: DeclaredSetting | None = None) -> Iterator[DeclaredSetting]:
    """Yield the model's own settings and sections, in the order in which they are declared."""
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
    """Yield every setting of the model, those in its sections included, sections themselves not."""
    for declared in fields_of(model, prefix):
        if declared.section is None:
            yield declared
        else:
            yield from settings_of(declared.section, declared)


def annotation_keys(model: type[Settings]) -> set[str]:
    """Return every whole annotation key that sets something in the model."""
    return {key for declared in settings_of(model) for key in declared.setting.annotation_keys()}


def without_annotations(model: type[Settings]) -> type[Settings]:
    """Return the model with no annotation for any setting, in its sections neither."""
    changed: dict[str, Any] = {}
    for declared in fields_of(model):
        info = copy(declared.field)
        info.json_schema_extra = replace(declared.setting, annotation="", old_annotation="")
        if declared.section is not None:
            info.annotation = info.default_factory = without_annotations(declared.section)
        changed[declared.own_name] = (info.annotation, info)
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **changed)


def with_annotations(model: type[Model], annotations: Mapping[str, str]) -> type[Model]:
    """Return the model with these annotation keys, after `nuclio.io/`, by field."""
    changed: dict[str, Any] = {}
    for name, annotation in annotations.items():
        # Copies, since the model itself has the fields of every other kind of trigger too.
        info = copy(model.model_fields[name])
        declared = cast("Setting", info.json_schema_extra)
        info.json_schema_extra = replace(declared, annotation=annotation)
        changed[name] = (info.annotation, info)
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **changed)
