"""function.yaml to a FunctionSpec: everything that is known before anything starts."""

import os
import pathlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.runtime.config.environment import read_environment
from headrace.runtime.config.function_fields import BuildFields, DocumentFields, SpecFields, split_handler
from headrace.runtime.config.handler_lookup import handler_fault
from headrace.runtime.config.spark import SparkSpec, read_spark
from headrace.runtime.config.trigger import TriggerReader, TriggerSpec
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.config.trigger_kinds import TriggerKind, installed_kinds
from headrace.runtime.errors import ConfigError, Problem
from headrace.runtime.settings.checks import nearest
from headrace.runtime.settings.declare import CHECKED_ANNOTATIONS, Settings, annotation_keys
from headrace.runtime.settings.findings import Findings
from headrace.runtime.settings.inline import read_inline
from headrace.runtime.settings.overrides import Override, overridden
from headrace.runtime.settings.reader import ANNOTATIONS, Reading, Surroundings, read_settings
from headrace.runtime.settings.resolved import ResolvedSetting
from headrace.runtime.settings.yaml_source import YamlSource, read_yaml

__all__ = ["FunctionSpec", "TriggerSpec", "load_function"]

FILE_NAME = "function.yaml"
INLINE_SUFFIX = ".py"


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One function. `path` is its function.yaml, `folder` where its handler's module is found.

    `name` is metadata.name, or the folder's name where the file has no metadata. `disabled` is
    what spec.disable says. `event_timeout_seconds` bounds one call of the handler, `memory_limit_bytes`
    one worker; None sets no bound. `spark` is None where the file asks for none. `notices` are lines
    to show, none of them a problem. `settings` are all that are in effect, without secrets.
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
    settings: tuple[ResolvedSetting, ...]


def load_function(
    path: pathlib.Path,
    kinds: Mapping[str, TriggerKind] | None = None,
    overrides: tuple[Override, ...] = (),
    *,
    with_handler: bool = False,
) -> FunctionSpec:
    """Read a function.yaml, given itself, by its folder, or inline in a .py file.

    Raises ConfigError, which holds every problem.
    `kinds` are the trigger kinds by canonical name; by default those that are installed. `with_handler`:
    a handler that can't be found is a problem too; its code doesn't run.
    """
    file = path / FILE_NAME if path.is_dir() else path
    source = overridden(_read(file), overrides)
    if not isinstance(source.data, dict):
        empty = Problem(str(file), 0, "", "is empty or no mapping; expected metadata and spec")
        raise ConfigError(source.problems or (empty,))
    load = _Load(file, source, installed_kinds() if kinds is None else kinds, with_handler=with_handler)
    spec = load.function()
    if load.findings.problems or spec is None:
        raise ConfigError(_in_order(load.findings.problems))
    return spec


def _read(file: pathlib.Path) -> YamlSource:
    reader = read_inline if file.suffix == INLINE_SUFFIX else read_yaml
    return reader(_text(file), str(file))


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
    """Reads one file into a FunctionSpec. Owns the findings while it does."""

    def __init__(
        self,
        file: pathlib.Path,
        source: YamlSource,
        kinds: Mapping[str, TriggerKind],
        *,
        with_handler: bool,
    ) -> None:
        self.file = file
        self.folder = file.resolve().parent
        self.kinds = kinds
        self.findings = Findings(source, problems=list(source.problems))
        self._with_handler = with_handler

    def function(self) -> FunctionSpec | None:
        """The function, or None where a problem leaves too little to build one."""
        document = self._document()
        annotations = self._annotations(document.values.metadata.annotations)
        spec = document.values.spec
        self._unused_parts(spec)
        env = read_environment(spec.env, self.findings)
        if self._with_handler and "spec.handler" not in document.broken and "PYTHONPATH" not in env:
            self._look_for_handler(document)
        spark = None
        if "spark" in spec.model_fields_set:
            spark = read_spark(spec.spark, {**os.environ, **env}, self.findings)
        triggers = TriggerReader(self.findings, self.folder, annotations, self.kinds).read_all(spec.triggers)
        if self.findings.problems:
            return None
        return self._built(document.values, env, triggers, spark)

    def _built(
        self,
        document: DocumentFields,
        env: Mapping[str, str],
        triggers: tuple[TriggerSpec, ...],
        spark: SparkSpec | None,
    ) -> FunctionSpec:
        module, function = split_handler(document.spec.handler)
        return FunctionSpec(
            path=self.file,
            folder=self.folder,
            name=document.metadata.name,
            namespace=document.metadata.namespace,
            handler=document.spec.handler,
            handler_module=module,
            handler_function=function,
            env=env,
            triggers=triggers,
            disabled=document.spec.disable,
            event_timeout_seconds=document.spec.event_timeout_seconds or None,
            memory_limit_bytes=document.spec.resources.limits.memory_bytes or None,
            spark=spark,
            notices=tuple(dict.fromkeys(map(str, self.findings.notices))),
            settings=tuple(self.findings.settings),
        )

    def _document(self) -> Reading[DocumentFields]:
        source = self.findings.source
        around = Surroundings(source, fallbacks=self._fallbacks(source.data))
        read = read_settings(DocumentFields, source.data, (), around)
        self.findings.keep(read)
        self.findings.resolve(read)
        return read

    def _fallbacks(self, data: object) -> dict[str, object]:
        """What a file without metadata, or inside its handler's own file, need not say."""
        is_inline = self.file.suffix == INLINE_SUFFIX
        fallbacks: dict[str, object] = {"spec.handler": f"{self.file.stem}:handler"} if is_inline else {}
        if isinstance(data, dict) and "metadata" not in data:
            name = self.file.stem if is_inline else self.folder.name or "function"
            fallbacks["metadata.name"] = name
            self.findings.notice(("metadata",), f"is missing; the function is named {name}")
        return fallbacks

    def _look_for_handler(self, document: Reading[DocumentFields]) -> None:
        module, function = split_handler(document.values.spec.handler)
        if fault := handler_fault(self.folder, module, function):
            self.findings.problem(document.paths["spec.handler"], fault)

    def _annotations(self, written: object) -> dict[str, str]:
        if not isinstance(written, dict):
            self.findings.problem(ANNOTATIONS, "expected a mapping from keys to strings")
            return {}
        self._unknown_annotations(written)
        for key, value in written.items():
            if not isinstance(value, str):
                message = "an annotation is a string; write its value in quotes"
                self.findings.problem((*ANNOTATIONS, key), message)
        return {key: value for key, value in written.items() if isinstance(value, str)}

    def _unknown_annotations(self, written: Mapping[str, object]) -> None:
        models: list[type[Settings]] = [TriggerFields, *(kind.Settings for kind in self.kinds.values())]
        known = sorted({key for model in models for key in annotation_keys(model)})
        for key in written:
            if key.startswith(CHECKED_ANNOTATIONS) and key not in known:
                message = f"unknown annotation; the nearest known one is {nearest(key, known)}"
                self.findings.problem((*ANNOTATIONS, key), message)

    def _unused_parts(self, spec: SpecFields) -> None:
        """What Nuclio knows and a process on a machine has no use for, or not yet."""
        if spec.disable:
            self.findings.notice(("spec", "disable"), "the function is disabled")
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        wanted = re.sub(r"^python:?", "", spec.runtime)
        if wanted not in ("", running):
            self.findings.notice(("spec", "runtime"), f"the handler runs on Python {running}, not {wanted}")
        if "build" in spec.model_fields_set:
            around = Surroundings(self.findings.source)
            read = read_settings(BuildFields, spec.build, ("spec", "build"), around)
            self.findings.problems.extend(read.problems)
            why = "no image is built; install what the handler needs beside Headrace"
            self.findings.notice(("spec", "build"), f"has no effect here: {why}")
