"""Reading of a function.yaml into a FunctionSpec, with every mistake in it found at once."""

import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.runtime.config.environment import read_environment
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.function_fields import (
    ON_KUBERNETES,
    REPLICAS,
    BuildFields,
    DocumentFields,
    SpecFields,
    other_sinks,
    split_handler,
)
from headrace.runtime.config.handler_lookup import code_fault, handler_fault
from headrace.runtime.config.output import OutputReader, check_topics
from headrace.runtime.config.spark import read_spark
from headrace.runtime.config.trigger import CommandSettings, TriggerReader, TriggerSpec
from headrace.runtime.config.trigger_kinds import TriggerKind, annotated_models, installed_kinds
from headrace.runtime.errors import ConfigError, Problem
from headrace.runtime.settings.declare import ANNOTATION_PREFIX, CHECKED_ANNOTATIONS, annotation_keys
from headrace.runtime.settings.findings import Findings
from headrace.runtime.settings.names import nearest_name
from headrace.runtime.settings.overrides import Override, overridden
from headrace.runtime.settings.reader import ANNOTATIONS, ReadContext, ReadResult, read_settings
from headrace.runtime.settings.written_values import MissingVariableError, text_of_scalar
from headrace.runtime.settings.yaml_source import YamlSource, read_inline, read_yaml

FILE_NAME = "function.yaml"
INLINE_SUFFIX = ".py"
_ONE_LOG = (
    "the sink {others} has no effect: a run has one log, on stderr, and collectors read it with"
    " --log-format json"
)
_FROM_MLRUN = (
    "is mlrun's, whose acks mean all records up to their own: explicitAckSemantics is cumulative where it"
    " isn't set"
)
_NO_COMMAND_SETTINGS = CommandSettings()
_MLRUN_LABELS = "mlrun/"
_MLRUN_VARIABLES = ("MLRUN_", "SERVING_SPEC_ENV")


def load_function(
    path: pathlib.Path,
    kinds: Mapping[str, TriggerKind] | None = None,
    overrides: tuple[Override, ...] = (),
    *,
    with_handler: bool = False,
    command: CommandSettings = _NO_COMMAND_SETTINGS,
) -> FunctionSpec:
    """Read a function.yaml, given by its own path, by its folder's, or inline in a .py file.

    Raises ConfigError, which holds every problem. `kinds` are the trigger kinds by canonical name; by default
    those that are installed. `overrides` are those of `--set`, `command` what other options give instead of
    the file. `with_handler`: a handler that can't be found is a problem too; its code doesn't run.
    """
    file = path / FILE_NAME if os.path.isdir(path) else path  # noqa: PTH112  # is_dir may raise before 3.14
    # --set comes before anything is read of the data: whoever reads it needn't know where a value is from.
    source = replace(overridden(_read(file), overrides), variables=os.environ)
    if not isinstance(source.data, dict):
        empty = Problem(str(file), 0, "", "is empty or no mapping; expected metadata and spec")
        raise ConfigError(source.problems or (empty,))
    kinds = installed_kinds() if kinds is None else kinds
    reader = _FunctionReader(file, source, kinds, command, with_handler=with_handler)
    spec = reader.read()
    if reader.findings.problems or spec is None:
        raise ConfigError(_in_order(reader.findings.problems))
    return spec


def _read(file: pathlib.Path) -> YamlSource:
    reader = read_inline if file.suffix == INLINE_SUFFIX else read_yaml
    return reader(_text(file), str(file))


def _text(file: pathlib.Path) -> str:
    try:
        # Some editors begin a file with a byte order mark, which this decoder takes off.
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        message = "is not UTF-8 text"
    except OSError as error:
        message = f"cannot be read: {error.strerror}; expected a {FILE_NAME} or a folder with one"
    except ValueError:  # a NUL in the path
        message = "is no file name"
    raise ConfigError([Problem(str(file), 0, "", message)])


def _in_order(problems: list[Problem]) -> list[Problem]:
    # An annotation is read once for each trigger, with the same problem each time.
    return sorted(dict.fromkeys(problems), key=lambda problem: problem.line)


class _FunctionReader:
    """Reads one file into a FunctionSpec. Owns the findings while it does."""

    def __init__(
        self,
        file: pathlib.Path,
        source: YamlSource,
        kinds: Mapping[str, TriggerKind],
        command: CommandSettings,
        *,
        with_handler: bool,
    ) -> None:
        self.file = file
        self.folder = file.resolve().parent
        self.kinds = kinds
        named = source.renamed("meta", "metadata")  # Nuclio's old name for it
        # With the problems of the YAML itself and of --set: all are shown together.
        self.findings = Findings(named, problems=list(source.problems))
        if named is not source:
            self.findings.notice(("metadata",), "is written as meta, its old name")
        self._command = command
        self._with_handler = with_handler

    def read(self) -> FunctionSpec | None:
        """Return the function, or None where there is a problem: reading goes on past each."""
        document = self._document()
        # Triggers are read with the annotations, so these come first.
        annotations = self._annotations(document.values.metadata.annotations)
        spec = document.values.spec
        self._note_unused_parts(spec)
        code, is_broken = self._code(spec)
        env = read_environment(spec.env, self.findings)
        # With a PYTHONPATH of its own a worker may find modules that can't be found from here.
        can_look = not is_broken and "spec.handler" not in document.broken and "PYTHONPATH" not in env
        if self._with_handler and can_look:
            self._look_for_handler(document, code)
        spark = None
        # Not whether it holds anything: `spark: {}` asks for Spark, too.
        if "spark" in spec.model_fields_set:
            # The environment that the workers will have.
            spark = read_spark(spec.spark, {**os.environ, **env}, self.findings)
        triggers = self._triggers(spec, annotations)
        outputs = OutputReader(self.findings, self.folder, self.kinds).read_all(spec.outputs)
        if "produce_topics" in spec.model_fields_set and isinstance(spec.outputs, dict):
            # Only some kinds of triggers have a resultTopic.
            results = [getattr(it.settings, "result_topic", "") for it in triggers]
            check_topics(spec.produce_topics, spec.outputs, results, self.findings)
        if self.findings.problems:
            return None
        written = self.findings.source.data
        from_mlrun = isinstance(written, dict) and is_from_mlrun(written)
        if from_mlrun and any(trigger.fields.explicit_ack_mode != "disable" for trigger in triggers):
            self.findings.notice(("spec",), _FROM_MLRUN)
        if others := other_sinks(spec.logger_sinks):
            self.findings.notice(("spec", "loggerSinks"), _ONE_LOG.format(others=others))
        return FunctionSpec(
            path=self.file,
            folder=self.folder,
            metadata=document.values.metadata,
            fields=spec,
            env=env,
            code=code,
            triggers=triggers,
            outputs=outputs,
            spark=spark,
            # Each once: an annotation is read again for each trigger.
            notices=tuple(dict.fromkeys(map(str, self.findings.notices))),
            settings=tuple(self.findings.settings),
            source=self.findings.source,
            is_from_mlrun=from_mlrun,
        )

    def _triggers(self, spec: SpecFields, annotations: Mapping[str, str]) -> tuple[TriggerSpec, ...]:
        reader = TriggerReader(self.findings, self.folder, annotations, self.kinds, self._command)
        found = reader.read_all(spec.triggers, has_default=not spec.disable_default_http_trigger)
        count = spec.replicas or spec.max_replicas or 1
        triggers = tuple(replace(trigger, replica_count=count) for trigger in found)
        self._check_replicas(spec, triggers)
        return triggers

    def _check_replicas(self, spec: SpecFields, triggers: Sequence[TriggerSpec]) -> None:
        """Check if the number of replicas is fixed where a trigger needs that. Elsewhere it has no effect."""
        least, most = spec.min_replicas, spec.max_replicas
        fixed = [trigger.kind for trigger in triggers if trigger.settings.has_fixed_replicas]
        for name in REPLICAS if not fixed else ():
            if name in spec.model_fields_set:
                key = SpecFields.model_fields[name].alias or ""
                self.findings.notice(("spec", key), f"has no effect here: {ON_KUBERNETES}")
        is_both = {"min_replicas", "max_replicas"} <= spec.model_fields_set
        if fixed and is_both and least != most:
            self.findings.problem(
                ("spec", "maxReplicas"),
                f"{most} must be minReplicas, {least}: a {fixed[0]} trigger does not support autoscaling,"
                " as its shards are shared out by a number of replicas that all of them know",
            )

    def _document(self) -> ReadResult[DocumentFields]:
        source = self.findings.source
        context = ReadContext(source, fallbacks=self._fallbacks(source.data))
        read = read_settings(DocumentFields, source.data, (), context)
        self.findings.add_messages_of(read)
        self.findings.add_settings_of(read)
        return read

    def _fallbacks(self, data: object) -> dict[str, object]:
        """Return values for what a file without metadata, or one inline in a handler's file, need not say."""
        is_inline = self.file.suffix == INLINE_SUFFIX
        fallbacks: dict[str, object] = {"spec.handler": f"{self.file.stem}:handler"} if is_inline else {}
        if isinstance(data, dict) and not data.get("metadata"):
            name = nearest_name(self.file.stem if is_inline else self.folder.name) or "function"
            fallbacks["metadata.name"] = name
            self.findings.notice(("metadata",), f"is missing; the function is named {name}")
        return fallbacks

    def _look_for_handler(self, document: ReadResult[DocumentFields], code: str) -> None:
        module, function = split_handler(document.values.spec.handler)
        fault = code_fault(code, module, function) if code else handler_fault(self.folder, module, function)
        if fault:
            self.findings.problem(document.paths["spec.handler"], fault)

    def _annotations(self, written: object) -> dict[str, str]:
        if not isinstance(written, dict):
            self.findings.problem(ANNOTATIONS, "expected a mapping from keys to strings")
            return {}
        self._unknown_annotations(written)
        texts = {key: self._annotation(key, value) for key, value in written.items()}
        for key, text in texts.items():
            if isinstance(text, list | dict):
                self.findings.problem((*ANNOTATIONS, key), "an annotation is text, not a list or a mapping")
        return {key: text for key, text in texts.items() if isinstance(text, str)}

    def _annotation(self, key: str, value: object) -> object:
        if not key.startswith(ANNOTATION_PREFIX):
            return text_of_scalar(value)  # another tool's: it stays as it is
        try:
            return text_of_scalar(self.findings.source.expanded(value)[0])
        except MissingVariableError as missing:
            self.findings.problem((*ANNOTATIONS, key), str(missing))
            return None

    def _unknown_annotations(self, written: Mapping[str, object]) -> None:
        models = annotated_models(self.kinds.values())
        known = sorted({key for model in models for key in annotation_keys(model)})
        for key in written:
            if key.startswith(CHECKED_ANNOTATIONS) and key not in known:
                message = self.findings.source.suggestions.unknown(key, known, called=("annotation", "one"))
                self.findings.problem((*ANNOTATIONS, key), message)

    def _note_unused_parts(self, spec: SpecFields) -> None:
        """Note settings that Nuclio goes by and a process on a machine doesn't."""
        if spec.disable:
            self.findings.notice(("spec", "disable"), "the function is disabled")
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        version = spec.runtime.partition(":")[2]
        # Behind a dash stands the image's variant, such as 3.8-alpine, which says nothing about Python.
        if version.partition("-")[0] not in ("", "3", running):
            self.findings.notice(("spec", "runtime"), f"the handler runs on Python {running}, not {version}")

    def _code(self, spec: SpecFields) -> tuple[str, bool]:
        """Return the code that spec.build holds, and whether it can't be read."""
        if not spec.build:
            return "", False
        context = ReadContext(self.findings.source)
        read = read_settings(BuildFields, spec.build, ("spec", "build"), context)
        self.findings.problems.extend(read.problems)
        if read.notices:  # one for all of its keys
            rest = ", but for functionSourceCode" if read.values.code else ""
            why = "no image is built; install what the handler needs beside Headrace"
            self.findings.notice(("spec", "build"), f"has no effect here{rest}: {why}")
        return read.values.code, "code" in read.broken


def is_from_mlrun(document: Mapping[str, Any]) -> bool:
    """Whether mlrun wrote the file, as its labels or its variables tell. `document`: as it is written.

    Functions of mlrun expect some things to be Nuclio's own way.
    """
    # Nothing has checked the document yet, so any part of it may be anything.
    spec, about = document.get("spec"), document.get("metadata") or document.get("meta")
    labels = about.get("labels") if isinstance(about, dict) else None
    env = spec.get("env") if isinstance(spec, dict) else None
    names = [entry.get("name") for entry in env if isinstance(entry, dict)] if isinstance(env, list) else []
    return any(str(label).startswith(_MLRUN_LABELS) for label in labels or ()) or any(
        str(name).startswith(_MLRUN_VARIABLES) for name in names
    )
