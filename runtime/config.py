"""function.yaml to a FunctionSpec: everything that is known before anything starts."""

import pathlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.runtime.environment import read_environment
from headrace.runtime.errors import ConfigError, Problem
from headrace.runtime.function_fields import BuildFields, DocumentFields, SpecFields
from headrace.runtime.setting_checks import nearest
from headrace.runtime.settings import Settings, annotation_keys
from headrace.runtime.settings_reader import ANNOTATIONS, Reading, Surroundings, read_settings
from headrace.runtime.spark_settings import SparkSpec, read_spark
from headrace.runtime.trigger_config import TriggerReader, TriggerSpec
from headrace.runtime.trigger_fields import TriggerFields
from headrace.runtime.trigger_kinds import TriggerKind, installed_kinds
from headrace.runtime.yaml_source import Path, YamlSource, read_yaml

__all__ = ["FunctionSpec", "TriggerSpec", "load_function"]

FILE_NAME = "function.yaml"
# Only these annotations are ours alone; a typing error in one of them must not pass unseen.
_CHECKED_ANNOTATIONS = "nuclio.io/kafka-"


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One function. `path` is its function.yaml, `folder` where its handler's module is found.

    `name` is metadata.name, or the folder's name where the file has no metadata. `disabled` is
    what spec.disable says. `event_timeout_seconds` bounds one call of the handler, `memory_limit_bytes`
    one worker; None sets no bound. `spark` is None where the file asks for none. `notices` are lines
    to show, none of them a problem.
    """

    path: pathlib.Path
    folder: pathlib.Path
    name: str
    namespace: str
    handler: str
    handler_module: str
    handler_function: str
    env: Mapping[str, str] = field(repr=False)  # may hold secrets
    triggers: tuple[TriggerSpec, ...]
    disabled: bool
    event_timeout_seconds: float | None
    memory_limit_bytes: int | None
    spark: SparkSpec | None
    notices: tuple[str, ...]


def load_function(path: pathlib.Path, kinds: Mapping[str, TriggerKind] | None = None) -> FunctionSpec:
    """Read a function.yaml, given itself or by its folder. ConfigError holds every problem.

    `kinds` are the trigger kinds by canonical name; by default those that are installed.
    """
    file = path / FILE_NAME if path.is_dir() else path
    source = read_yaml(_text(file), str(file))
    if not isinstance(source.data, dict):
        empty = Problem(str(file), 0, "", "is empty or no mapping; expected metadata and spec")
        raise ConfigError(source.problems or (empty,))
    load = _Load(file, source, installed_kinds() if kinds is None else kinds)
    spec = load.function()
    if load.problems or spec is None:
        raise ConfigError(_in_order(load.problems))
    return spec


def _text(file: pathlib.Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        message = "is not UTF-8 text"
    except OSError as error:
        message = f"cannot be read: {error.strerror}; expected a {FILE_NAME} or a folder with one"
    except ValueError:  # a NUL in the path
        message = "is no file name"
    raise ConfigError([Problem(str(file), 0, "", message)])


def _in_order(problems: list[Problem]) -> list[Problem]:
    # An annotation is read once per trigger, and says the same each time.
    return sorted(dict.fromkeys(problems), key=lambda problem: problem.line)


class _Load:
    """Owns the problems and notices of one file while it is read."""

    def __init__(self, file: pathlib.Path, source: YamlSource, kinds: Mapping[str, TriggerKind]) -> None:
        self.file = file
        self.source = source
        self.kinds = kinds
        self.problems: list[Problem] = list(source.problems)
        self.notices: list[Problem] = []

    def function(self) -> FunctionSpec | None:
        """The function, or None where a problem leaves too little to build one."""
        document = self._document()
        annotations = self._annotations(document.values.metadata.annotations)
        spec = document.values.spec
        folder = self.file.resolve().parent
        triggers = TriggerReader(
            self.source, folder, annotations, self.kinds, self.problems, self.notices
        ).read_all(spec.triggers)
        env = read_environment(spec.env, self.source, self.problems, self.notices)
        has_spark = "spark" in spec.model_fields_set
        spark = read_spark(spec.spark, self.source, self.problems) if has_spark else None
        self._unused_parts(spec)
        if self.problems:
            return None
        return self._built(document.values, folder, env, triggers, spark)

    def _built(
        self,
        document: DocumentFields,
        folder: pathlib.Path,
        env: Mapping[str, str],
        triggers: tuple[TriggerSpec, ...],
        spark: SparkSpec | None,
    ) -> FunctionSpec:
        module, _, function = document.spec.handler.partition(":")
        return FunctionSpec(
            path=self.file,
            folder=folder,
            name=document.metadata.name,
            namespace=document.metadata.namespace,
            handler=document.spec.handler,
            handler_module=module.removesuffix(".py"),
            handler_function=function,
            env=env,
            triggers=triggers,
            disabled=document.spec.disable,
            event_timeout_seconds=document.spec.event_timeout_seconds or None,
            memory_limit_bytes=document.spec.resources.limits.memory_bytes or None,
            spark=spark,
            notices=tuple(dict.fromkeys(map(str, self.notices))),
        )

    def _document(self) -> Reading[DocumentFields]:
        data = self.source.data
        assert isinstance(data, dict)
        if "metadata" not in data:
            name = self.file.resolve().parent.name or "function"
            data = {**data, "metadata": {"name": name}}
            self._notice(("metadata",), f"is missing; the function is named {name}")
        read = read_settings(DocumentFields, data, (), Surroundings(self.source))
        self.problems.extend(read.problems)
        self.notices.extend(read.notices)
        return read

    def _annotations(self, written: object) -> dict[str, str]:
        if not isinstance(written, dict):
            self._problem(ANNOTATIONS, "expected a mapping from keys to strings")
            return {}
        self._unknown_annotations(written)
        for key, value in written.items():
            if not isinstance(value, str):
                message = "an annotation is a string; write its value in quotes"
                self._problem((*ANNOTATIONS, key), message)
        return {key: value for key, value in written.items() if isinstance(value, str)}

    def _unknown_annotations(self, written: Mapping[str, object]) -> None:
        models: list[type[Settings]] = [TriggerFields, *(kind.Settings for kind in self.kinds.values())]
        known = sorted({key for model in models for key in annotation_keys(model)})
        for key in written:
            if key.startswith(_CHECKED_ANNOTATIONS) and key not in known:
                message = f"unknown annotation; the nearest known one is {nearest(key, known)}"
                self._problem((*ANNOTATIONS, key), message)

    def _unused_parts(self, spec: SpecFields) -> None:
        """What Nuclio knows and a process on a machine has no use for, or not yet."""
        if spec.disable:
            self._notice(("spec", "disable"), "the function is disabled")
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        wanted = re.sub(r"^python:?", "", spec.runtime)
        if wanted not in ("", running):
            self._notice(("spec", "runtime"), f"the handler runs on Python {running}, not {wanted}")
        if "build" in spec.model_fields_set:
            read = read_settings(BuildFields, spec.build, ("spec", "build"), Surroundings(self.source))
            self.problems.extend(read.problems)
            why = "no image is built; install what the handler needs beside Headrace"
            self._notice(("spec", "build"), f"has no effect here: {why}")

    def _problem(self, path: Path, message: str) -> None:
        self.problems.append(self.source.problem(path, message))

    def _notice(self, path: Path, message: str) -> None:
        self.notices.append(self.source.problem(path, message))
