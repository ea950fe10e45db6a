"""Reads one mapping of a file into a Settings model, and keeps on reading past every problem.

An option of the command line beats an attribute, that its annotation, that an environment variable, that the
fallback, that the default.
"""

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from headrace.runtime.errors import Problem
from headrace.runtime.settings.checks import NOT_BUILT, NotAcceptedError, checked
from headrace.runtime.settings.declare import DeclaredSetting, Settings, fields_of
from headrace.runtime.settings.types import ANYTHING, COUNTS, TEXT, TEXTS
from headrace.runtime.settings.written_values import (
    MissingVariableError,
    SecretFileError,
    SecretFolder,
    text_of_scalar,
)
from headrace.runtime.settings.yaml_source import Path, YamlSource

Origin = Literal["attribute", "annotation", "command line", "environment", "fallback", "default"]
Model = TypeVar("Model", bound=Settings)

ANNOTATIONS: Path = ("metadata", "annotations")
_SECRET_FOLDER = "secret_path"  # noqa: S105 - a setting's name; declared before every secret
_EMPTY: tuple[object, ...] = (None, "", [], {})
_COLLECTIONS = (ANYTHING, COUNTS, TEXTS)


@dataclass(frozen=True, slots=True)
class OverrideValue:
    """What a command says instead of the file: itself, or by the environment."""

    value: object
    origin: Origin


@dataclass(frozen=True, slots=True)
class ReadContext:
    """What a mapping is read with: its file, and what stands in for keys that are missing in it.

    `instead` are values by the name of an option, `fallbacks` by dotted Python name. `is_case_folded`: keys
    match whatever their case. `elsewhere` says of keys that belong to another mapping where that is.
    `is_typed`: a number where text is meant is a mistake, as it is to Nuclio in attributes and nowhere else.
    `folder`: what a relative secretPath is relative to.
    """

    source: YamlSource
    annotations: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
    instead: Mapping[str, OverrideValue] = field(default_factory=dict)
    fallbacks: Mapping[str, object] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    is_case_folded: bool = False
    is_typed: bool = False
    folder: pathlib.Path = pathlib.Path()


@dataclass(frozen=True, slots=True)
class ReadResult(Generic[Model]):
    """A model and how it came about. Names are dotted Python names (`sasl.user`).

    `broken` names what had a problem or is missing: it holds its default, if it has one. `paths`
    says where a value stands in the file, or would stand; `origins` lists what isn't a default.
    `path` is where the model's mapping stands.
    """

    path: Path
    values: Model
    broken: frozenset[str]
    paths: Mapping[str, Path]
    origins: Mapping[str, Origin]
    variables: Mapping[str, str]
    problems: tuple[Problem, ...]
    notices: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Given:
    value: object
    path: Path
    origin: Origin
    variables: tuple[str, ...] = ()


def read_settings(model: type[Model], written: object, path: Path, around: ReadContext) -> ReadResult[Model]:
    """Read `written`, which stands at `path`, into `model`. Problems are returned, none raised."""
    reader = _Reader(around, path)
    values = reader.section(model, written, path, None)
    return ReadResult(
        path,
        values,
        frozenset(reader.broken),
        reader.paths,
        reader.origins,
        reader.variables,
        tuple(reader.problems),
        tuple(reader.notices),
    )


class _Reader:
    """Owns everything that one call of read_settings gathers."""

    def __init__(self, around: ReadContext, base: Path) -> None:
        self.broken: set[str] = set()
        self.paths: dict[str, Path] = {}
        self.origins: dict[str, Origin] = {}
        self.variables: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.notices: list[Problem] = []
        self._around = around
        self._base = base
        self._source = around.source
        self._secrets = SecretFolder()

    def section(
        self, model: type[Model], written: object, path: Path, parent: DeclaredSetting | None
    ) -> Model:
        mapping = self._mapping(written, path)
        known = {declared.setting.key: declared for declared in fields_of(model, parent)}
        spelled = self._spelled_keys(model, known, mapping, path)
        values: dict[str, Any] = {}
        for key, declared in known.items():
            at = (*path, spelled.get(key, key))
            self.paths[declared.name] = at
            if declared.section is not None:
                inner = mapping[spelled[key]] if key in spelled else {}
                values[declared.own_name] = self.section(declared.section, inner, at, declared)
                continue
            try:
                given = self._given(declared, mapping, spelled, at)
            except MissingVariableError as missing:
                self._refuse(declared, at, str(missing))
                continue
            if given is not None:
                self._take(declared, given, values)
            elif declared.setting.required and declared.setting.instead not in spelled:
                self._refuse(declared, at, f"is required: {declared.setting.required}")
        return model.model_construct(set(values), **values)

    def _mapping(self, written: object, path: Path) -> dict[str, object]:
        if isinstance(written, dict):
            return written
        if written is not None:  # a section with nothing below it is none
            self._problem(path, "this is no mapping; expected keys with values below it, or no such key")
        return {}

    def _spelled_keys(
        self,
        model: type[Settings],
        known: Mapping[str, DeclaredSetting],
        mapping: Mapping[str, object],
        path: Path,
    ) -> dict[str, str]:
        """DeclaredSetting key to the spelling in the file, for the keys that the file has."""
        by_spelling = {self._folded(key): key for key in known}
        found: dict[str, str] = {}
        for spelling in mapping:
            key = by_spelling.get(self._folded(spelling))
            if key is None:
                known_keys = [*known, *model.ignored]
                self._other_key(model, known_keys, (*path, spelling), is_empty=mapping[spelling] in _EMPTY)
            elif key in found:
                self._problem((*path, spelling), f"is the same setting as {found[key]}; keep one")
            else:
                found[key] = spelling
        return found

    def _folded(self, key: str) -> str:
        return key.lower() if self._around.is_case_folded else key

    def _other_key(self, model: type[Settings], known: list[str], path: Path, *, is_empty: bool) -> None:
        spelling = str(path[-1])
        if spelling in self._around.elsewhere and path[:-1] == self._base:
            self._problem(path, f"unknown key here; {self._around.elsewhere[spelling]}")
        elif spelling not in model.ignored:
            self._problem(path, self._source.suggestions.unknown(spelling, known))
        elif not is_empty:  # exported files spell out what nobody has set
            self._notice(path, f"has no effect here: {model.ignored[spelling]}")

    def _given(
        self,
        declared: DeclaredSetting,
        mapping: Mapping[str, object],
        spelled: Mapping[str, str],
        path: Path,
    ) -> _Given | None:
        if instead := self._around.instead.get(declared.setting.option):
            if instead.origin == "environment" and declared.setting.key in spelled:
                self._notice(path, f"gives way to {declared.setting.environment} of the environment")
            return _Given(instead.value, path, instead.origin)
        if declared.setting.key in spelled:
            written, variables = self._expanded(declared, mapping[spelled[declared.setting.key]])
            value = self._written(declared, written, path)
            if self._counts(declared, value, path):
                origin: Origin = "command line" if self._source.is_overridden(path) else "attribute"
                return _Given(value, path, "environment" if variables else origin, variables)
        for key in declared.setting.annotation_keys():
            if key in self._around.annotations:
                value = declared.shape.from_text(self._around.annotations[key])
                if self._counts(declared, value, (*ANNOTATIONS, key)):
                    return _Given(value, (*ANNOTATIONS, key), "annotation")
        if declared.setting.environment in self._around.environment:
            return _Given(self._around.environment[declared.setting.environment], path, "environment")
        if declared.name in self._around.fallbacks:
            return _Given(self._around.fallbacks[declared.name], path, "fallback")
        return None

    def _expanded(self, declared: DeclaredSetting, written: object) -> tuple[object, tuple[str, ...]]:
        if declared.shape == ANYTHING:  # whoever reads it knows what in it is a value
            return written, ()
        value, variables = self._source.expanded(written, is_pattern=declared.setting.quotes_variables)
        is_text = isinstance(value, str) and value != written
        return declared.shape.from_text(value) if is_text else value, variables  # type: ignore[arg-type]

    def _written(self, declared: DeclaredSetting, value: object, path: Path) -> object:
        if value is not None:
            is_text = declared.shape == TEXT and not self._around.is_typed
            return text_of_scalar(value) if is_text else value
        if declared.setting.refuses_nothing:
            return None
        if declared.shape not in _COLLECTIONS and not declared.setting.required:
            self._notice(path, "nothing is written; the default counts")
        return declared.shape.blank

    def _counts(self, declared: DeclaredSetting, value: object, path: Path) -> bool:
        """Whether a value is one: neither what Go reads as not given, nor one that changes nothing here."""
        if value == declared.shape.blank and not declared.setting.refuses_nothing:
            return False
        if why := declared.setting.idle(value):
            self._notice(path, f"has no effect here: {why}")
        return not why

    def _take(self, declared: DeclaredSetting, given: _Given, values: dict[str, Any]) -> None:
        self.paths[declared.name] = given.path
        if not declared.setting.built:
            self._refuse(declared, given.path, f"{NOT_BUILT}; remove it")
            return
        try:
            value = self._with_secret_file(declared, given.value)
            is_quoted = given.origin == "annotation" or bool(given.variables)
            accepted = checked(declared, value, is_quoted=is_quoted, is_hidden=bool(given.variables))
        except SecretFileError as error:
            self._refuse(declared, given.path, str(error))
        except NotAcceptedError as refused:
            for index, message in refused.faults:
                self._refuse(declared, (*given.path, *index), message)
        else:
            values[declared.own_name] = self._taken(declared, given, accepted)

    def _taken(self, declared: DeclaredSetting, given: _Given, value: object) -> object:
        self.origins[declared.name] = given.origin
        if given.variables:
            self.variables[declared.name] = ", ".join(given.variables)
        if declared.setting.no_effect:
            self._notice(given.path, f"has no effect here: {declared.setting.no_effect}")
        if declared.name != _SECRET_FOLDER:
            return value
        folder = self._around.folder / str(value)
        self._secrets = SecretFolder(folder)
        return str(folder)

    def _with_secret_file(self, declared: DeclaredSetting, value: object) -> object:
        if declared.setting.secret and isinstance(value, str):
            return self._secrets.content(value, may_be_path=declared.setting.may_be_path)
        return value

    def _refuse(self, declared: DeclaredSetting, path: Path, message: str) -> None:
        self.broken.add(declared.name)
        self._problem(path, message)

    def _problem(self, path: Path, message: str) -> None:
        self.problems.append(self._source.problem(path, message))

    def _notice(self, path: Path, message: str) -> None:
        self.notices.append(self._source.problem(path, message))
