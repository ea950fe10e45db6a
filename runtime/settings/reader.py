"""Reading of one mapping of a file into a Settings model, past every problem in it.

A setting's value comes from the first of these that has it: an option of the command line, the attribute, its
annotation, an environment variable, the fallback, the default.
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
    """Value that a command gives instead of the file: by an option, or by the option's variable."""

    value: object
    origin: Origin


@dataclass(frozen=True, slots=True)
class ReadContext:
    """Context of reading a mapping: its file, and what stands in for keys that are missing in it."""

    source: YamlSource
    annotations: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
    option_values: Mapping[str, OverrideValue] = field(default_factory=dict)
    """Values that the command line gives, by the name of the option."""
    fallbacks: Mapping[str, object] = field(default_factory=dict)
    """Values for settings given nowhere, by dotted Python name."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Keys that belong to another mapping, with the words that say to which."""
    is_case_folded: bool = False
    """Whether keys match whatever their case."""
    is_typed: bool = False
    """Whether a number where text is meant is a mistake, as it is to Nuclio in attributes and nowhere else.
    """
    folder: pathlib.Path = pathlib.Path()
    """Folder that a relative secretPath is relative to."""


@dataclass(frozen=True, slots=True)
class ReadResult(Generic[Model]):
    """Model that was read, and where its values come from. Names are dotted Python names (`sasl.user`).

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
class _GivenValue:
    """Value that a setting was given, where it stands, and the variables in it."""

    value: object
    path: Path
    origin: Origin
    variables: tuple[str, ...] = ()


def read_settings(model: type[Model], written: object, path: Path, context: ReadContext) -> ReadResult[Model]:
    """Read `written`, the mapping at `path`, into `model`. Problems are returned, none raised."""
    reader = _Reader(context, path)
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
    """Reads one mapping. Owns everything that a call of read_settings gathers."""

    def __init__(self, context: ReadContext, base: Path) -> None:
        self.broken: set[str] = set()
        self.paths: dict[str, Path] = {}
        self.origins: dict[str, Origin] = {}
        self.variables: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.notices: list[Problem] = []
        self._context = context
        self._base = base
        self._source = context.source
        self._secrets = SecretFolder()

    def section(
        self, model: type[Model], written: object, path: Path, parent: DeclaredSetting | None
    ) -> Model:
        mapping = self._mapping(written, path)
        # In the order of the declarations: secretPath comes before the secrets that name files in it.
        known = {declared.setting.key: declared for declared in fields_of(model, parent)}
        spelled = self._spelled_keys(model, known, mapping, path)
        values: dict[str, Any] = {}
        for key, declared in known.items():
            at = (*path, spelled.get(key, key))
            self.paths[declared.name] = at
            if declared.section is not None:
                # A section that isn't written is read all the same: annotations may set what is in it.
                inner = mapping[spelled[key]] if key in spelled else {}
                values[declared.own_name] = self.section(declared.section, inner, at, declared)
                continue
            try:
                given = self._find_value(declared, mapping, spelled, at)
            except MissingVariableError as missing:
                self._refuse(declared, at, str(missing))
                continue
            if given is not None:
                self._accept(declared, given, values)
            elif declared.setting.required and declared.setting.required_unless not in spelled:
                self._refuse(declared, at, f"is required: {declared.setting.required}")
        # Without pydantic's validation: each value is checked already, one by one, in words for users.
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
        """Return the spelling in the file by declared key, for the keys that the file has."""
        by_spelling = {self._folded(key): key for key in known}
        found: dict[str, str] = {}
        for spelling in mapping:
            key = by_spelling.get(self._folded(spelling))
            if key is None:
                known_keys = [*known, *model.ignored]
                self._other_key(model, known_keys, (*path, spelling), is_empty=mapping[spelling] in _EMPTY)
            elif key in found:
                # Attributes match whatever their case, so a file may have one of them twice.
                self._problem((*path, spelling), f"is the same setting as {found[key]}; keep one")
            else:
                found[key] = spelling
        return found

    def _folded(self, key: str) -> str:
        return key.lower() if self._context.is_case_folded else key

    def _other_key(self, model: type[Settings], known: list[str], path: Path, *, is_empty: bool) -> None:
        spelling = str(path[-1])
        if spelling in self._context.elsewhere and path[:-1] == self._base:
            self._problem(path, f"unknown key here; {self._context.elsewhere[spelling]}")
        elif spelling not in model.ignored:
            self._problem(path, self._source.suggestions.unknown(spelling, known))
        elif not is_empty:  # exports of Nuclio spell out keys that nobody has set
            self._notice(path, f"has no effect here: {model.ignored[spelling]}")

    def _find_value(
        self,
        declared: DeclaredSetting,
        mapping: Mapping[str, object],
        spelled: Mapping[str, str],
        path: Path,
    ) -> _GivenValue | None:
        """Return the value from the first source that has one; None where the default holds."""
        if option := self._context.option_values.get(declared.setting.option):
            if option.origin == "environment" and declared.setting.key in spelled:
                self._notice(path, f"gives way to {declared.setting.environment} of the environment")
            return _GivenValue(option.value, path, option.origin)
        if declared.setting.key in spelled:
            written, variables = self._expanded(declared, mapping[spelled[declared.setting.key]])
            value = self._written(declared, written, path)
            if self._is_used(declared, value, path):
                origin: Origin = "command line" if self._source.is_overridden(path) else "attribute"
                return _GivenValue(value, path, "environment" if variables else origin, variables)
        for key in declared.setting.annotation_keys():
            if key in self._context.annotations:
                value = declared.shape.from_text(self._context.annotations[key])
                if self._is_used(declared, value, (*ANNOTATIONS, key)):
                    return _GivenValue(value, (*ANNOTATIONS, key), "annotation")
        if declared.setting.environment in self._context.environment:
            return _GivenValue(self._context.environment[declared.setting.environment], path, "environment")
        if declared.name in self._context.fallbacks:
            return _GivenValue(self._context.fallbacks[declared.name], path, "fallback")
        return None

    def _expanded(self, declared: DeclaredSetting, written: object) -> tuple[object, tuple[str, ...]]:
        if declared.shape == ANYTHING:  # whoever reads the mapping expands the values in it
            return written, ()
        value, variables = self._source.expanded(written, is_pattern=declared.setting.quotes_variables)
        # A variable is text: read it as an annotation's, so that a number may come from one.
        is_text = isinstance(value, str) and value != written
        return declared.shape.from_text(value) if is_text else value, variables  # type: ignore[arg-type]

    def _written(self, declared: DeclaredSetting, value: object, path: Path) -> object:
        if value is not None:
            # Kubernetes' reader takes a number for text where text is meant; Nuclio's for attributes doesn't.
            is_text = declared.shape == TEXT and not self._context.is_typed
            return text_of_scalar(value) if is_text else value
        if declared.setting.refuses_nothing:
            return None
        if declared.shape not in _COLLECTIONS and not declared.setting.required:
            self._notice(path, "nothing is written; the default counts")
        return declared.shape.blank

    def _is_used(self, declared: DeclaredSetting, value: object, path: Path) -> bool:
        """Whether a value is used: not one that Go reads as not given, or that changes nothing here."""
        if value == declared.shape.blank and not declared.setting.refuses_nothing:
            return False  # so an annotation or a fallback may still give one
        if why := declared.setting.idle(value):
            self._notice(path, f"has no effect here: {why}")
        return not why

    def _accept(self, declared: DeclaredSetting, given: _GivenValue, values: dict[str, Any]) -> None:
        self.paths[declared.name] = given.path
        if not declared.setting.built:
            self._refuse(declared, given.path, f"{NOT_BUILT}; remove it")
            return
        try:
            value = self._with_secret_file(declared, given.value)
            is_quoted = given.origin == "annotation" or bool(given.variables)
            # A variable may hold a secret, whatever the setting: no message shows it.
            accepted = checked(declared, value, is_quoted=is_quoted, is_hidden=bool(given.variables))
        except SecretFileError as error:
            self._refuse(declared, given.path, str(error))
        except NotAcceptedError as refused:
            for index, message in refused.faults:
                self._refuse(declared, (*given.path, *index), message)
        else:
            values[declared.own_name] = self._keep_origin(declared, given, accepted)

    def _keep_origin(self, declared: DeclaredSetting, given: _GivenValue, value: object) -> object:
        self.origins[declared.name] = given.origin
        if given.variables:
            self.variables[declared.name] = ", ".join(given.variables)
        if declared.setting.no_effect:
            self._notice(given.path, f"has no effect here: {declared.setting.no_effect}")
        if declared.name != _SECRET_FOLDER:
            return value
        # Secrets that are read from here on may name files in this folder.
        folder = self._context.folder / str(value)
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
