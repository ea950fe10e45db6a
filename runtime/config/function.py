"""function.yaml to a FunctionSpec: everything that is known before anything starts."""

import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.runtime.config.environment import read_environment
from headrace.runtime.config.function_fields import (
    LOG_LEVELS,
    ON_KUBERNETES,
    REPLICAS,
    BuildFields,
    DocumentFields,
    MetadataFields,
    SpecFields,
    other_sinks,
    split_handler,
)
from headrace.runtime.config.handler_lookup import code_fault, handler_fault
from headrace.runtime.config.mlrun import is_from_mlrun
from headrace.runtime.config.output import OutputReader, OutputSpec, check_topics, place_of
from headrace.runtime.config.spark import SparkSpec, read_spark
from headrace.runtime.config.trigger import CommandSettings, TriggerReader, TriggerSpec
from headrace.runtime.config.trigger_kinds import TriggerKind, annotated_models, installed_kinds
from headrace.runtime.errors import ConfigError, Problem
from headrace.runtime.settings.declare import ANNOTATION_PREFIX, CHECKED_ANNOTATIONS, annotation_keys
from headrace.runtime.settings.findings import Findings, ResolvedSetting
from headrace.runtime.settings.names import nearest_name
from headrace.runtime.settings.overrides import Override, overridden
from headrace.runtime.settings.reader import ANNOTATIONS, ReadContext, ReadResult, read_settings
from headrace.runtime.settings.written_values import MissingVariableError, text_of_scalar
from headrace.runtime.settings.yaml_source import Path, YamlSource, read_inline, read_yaml

__all__ = ["FunctionSpec", "TriggerSpec", "load_function"]

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
_NOTHING_BESIDE = CommandSettings()


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One function. `path` is its function.yaml, `folder` where its handler's module is found.

    `metadata` and `fields` are what the file says, validated; some of it in other words below. `spark` is
    None where the file asks for none. `code` is the handler's module where the file holds that itself,
    else empty. `notices` are lines to show, none of them a problem. `settings` are all
    that are in effect, without secrets.
    """

    path: pathlib.Path
    folder: pathlib.Path
    metadata: MetadataFields = field(repr=False)  # annotations may hold secrets
    fields: SpecFields = field(repr=False)  # env, spark, triggers and outputs may
    env: Mapping[str, str] = field(repr=False)  # may hold secrets
    code: str = field(repr=False)
    triggers: tuple[TriggerSpec, ...]
    outputs: tuple[OutputSpec, ...]
    spark: SparkSpec | None
    notices: tuple[str, ...]
    settings: tuple[ResolvedSetting, ...]
    source: YamlSource = field(repr=False)  # may hold secrets
    is_from_mlrun: bool
    """Acks mean all records up to their own, where the file says nothing else, and events have no `key`."""
    function_addresses: Mapping[str, str] = field(default_factory=dict)
    """Where the functions of its run are called, by name: `host:port`. Empty until it runs."""
    is_debugged: bool = False
    """Its workers have the terminal."""

    def problem(self, path: Path, message: str) -> Problem:
        """One that shows only beside other functions, or on this machine."""
        return self.source.problem(path, message)

    @property
    def name(self) -> str:
        """metadata.name, or one like the folder's where the file has no metadata."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return self.metadata.namespace

    @property
    def project(self) -> str:
        """The label nuclio.io/project-name; Nuclio's default where there is none."""
        labels = self.metadata.labels if isinstance(self.metadata.labels, dict) else {}
        return str(labels.get("nuclio.io/project-name", "default"))

    @property
    def handler_log_level(self) -> int | None:
        """Of Python's logging: the lowest in spec.loggerSinks."""
        levels = [entry.get("level", "info").lower() for entry in self.fields.logger_sinks]
        return min((LOG_LEVELS[level] for level in levels), default=None)

    @property
    def worker_env(self) -> dict[str, str]:
        """What workers find beside what is passed on to them: spec.env, and what Nuclio sets."""
        version = self.fields.version
        return {
            "NUCLIO_FUNCTION_NAME": self.name,
            "NUCLIO_FUNCTION_DESCRIPTION": self.fields.description,
            "NUCLIO_FUNCTION_VERSION": "" if version is None else str(version),
            "NUCLIO_FUNCTION_HANDLER": self.handler,
            "NUCLIO_HANDLER": self.handler,
            **self.env,
        }

    def host_of(self, spec: TriggerSpec) -> TriggerSpec:
        """The trigger whose workers it has: itself, or of those with its workerAllocatorName the stream."""
        shared = spec.fields.worker_allocator_name
        sharers = [it for it in self.triggers if shared and it.fields.worker_allocator_name == shared]
        return next((it for it in sharers if it.is_stream), (sharers or [spec])[0])

    def guests_of(self, spec: TriggerSpec) -> Sequence[TriggerSpec]:
        """The others that share its workers, in the order of the file."""
        return [it for it in self.triggers if it is not spec and self.host_of(it) is spec]

    @property
    def triggers_by_host(self) -> Sequence[TriggerSpec]:
        """All, those with workers of their own first."""
        return sorted(self.triggers, key=lambda spec: self.host_of(spec) is not spec)

    @property
    def handler(self) -> str:
        """As it is written: `module:function`."""
        return self.fields.handler

    @property
    def handler_module(self) -> str:
        """Its module's name."""
        return split_handler(self.handler)[0]

    @property
    def handler_function(self) -> str:
        """Its function's name."""
        return split_handler(self.handler)[1]

    @property
    def disabled(self) -> bool:
        """What spec.disable says."""
        return self.fields.disable

    @property
    def produce_topics(self) -> frozenset[tuple[str, str]] | None:
        """The only places for messages of its handlers, by output and topic; None: there is no list."""
        is_given = "produce_topics" in self.fields.model_fields_set
        return frozenset(map(place_of, self.fields.produce_topics)) if is_given else None

    @property
    def event_timeout_seconds(self) -> float | None:
        """Bounds one call of the handler; None: nothing does."""
        return self.fields.event_timeout_seconds or None

    @property
    def memory_limit_bytes(self) -> int | None:
        """Bounds one worker; None: nothing does."""
        return self.fields.resources.limits.memory_bytes or None


def load_function(
    path: pathlib.Path,
    kinds: Mapping[str, TriggerKind] | None = None,
    overrides: tuple[Override, ...] = (),
    *,
    with_handler: bool = False,
    beside: CommandSettings = _NOTHING_BESIDE,
) -> FunctionSpec:
    """Read a function.yaml, given itself, by its folder, or inline in a .py file.

    Raises ConfigError, which holds every problem.
    `kinds` are the trigger kinds by canonical name; by default those that are installed. `with_handler`:
    a handler that can't be found is a problem too; its code doesn't run. `beside` the file a command says
    more.
    """
    file = path / FILE_NAME if path.is_dir() else path
    source = replace(overridden(_read(file), overrides), variables=os.environ)
    if not isinstance(source.data, dict):
        empty = Problem(str(file), 0, "", "is empty or no mapping; expected metadata and spec")
        raise ConfigError(source.problems or (empty,))
    load = _Load(file, source, installed_kinds() if kinds is None else kinds, with_handler=with_handler)
    spec = load.function(beside)
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
        named = source.renamed("meta", "metadata")
        self.findings = Findings(named, problems=list(source.problems))
        if named is not source:
            self.findings.notice(("metadata",), "is written as meta, its old name")
        self._with_handler = with_handler

    def function(self, beside: CommandSettings) -> FunctionSpec | None:
        """The function, or None where a problem leaves too little to build one."""
        document = self._document()
        annotations = self._annotations(document.values.metadata.annotations)
        spec = document.values.spec
        self._unused_parts(spec)
        code, is_broken = self._code(spec)
        env = read_environment(spec.env, self.findings)
        if (
            self._with_handler
            and not is_broken
            and "spec.handler" not in document.broken
            and "PYTHONPATH" not in env
        ):
            self._look_for_handler(document, code)
        spark = None
        if "spark" in spec.model_fields_set:
            spark = read_spark(spec.spark, {**os.environ, **env}, self.findings)
        reader = TriggerReader(self.findings, self.folder, annotations, self.kinds, beside)
        count = spec.replicas or spec.max_replicas or 1
        triggers = tuple(
            replace(trigger, replica_count=count)
            for trigger in reader.read_all(spec.triggers, has_default=not spec.disable_default_http_trigger)
        )
        self._replicas(spec, triggers)
        outputs = OutputReader(self.findings, self.folder, self.kinds).read_all(spec.outputs)
        if "produce_topics" in spec.model_fields_set and isinstance(spec.outputs, dict):
            # Of those kinds that have one.
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
            notices=tuple(dict.fromkeys(map(str, self.findings.notices))),
            settings=tuple(self.findings.settings),
            source=self.findings.source,
            is_from_mlrun=from_mlrun,
        )

    def _replicas(self, spec: SpecFields, triggers: Sequence[TriggerSpec]) -> None:
        """Whether their number is fixed, where a trigger needs that. Elsewhere it means nothing."""
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
        around = ReadContext(source, fallbacks=self._fallbacks(source.data))
        read = read_settings(DocumentFields, source.data, (), around)
        self.findings.keep(read)
        self.findings.resolve(read)
        return read

    def _fallbacks(self, data: object) -> dict[str, object]:
        """What a file without metadata, or inside its handler's own file, need not say."""
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
            return text_of_scalar(value)  # somebody else's
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
                said = self.findings.source.suggestions.unknown(key, known, called=("annotation", "one"))
                self.findings.problem((*ANNOTATIONS, key), said)

    def _unused_parts(self, spec: SpecFields) -> None:
        """What Nuclio knows and a process on a machine has no use for, or not yet."""
        if spec.disable:
            self.findings.notice(("spec", "disable"), "the function is disabled")
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        wanted = spec.runtime.partition(":")[2]
        if wanted.partition("-")[0] not in ("", "3", running):
            self.findings.notice(("spec", "runtime"), f"the handler runs on Python {running}, not {wanted}")

    def _code(self, spec: SpecFields) -> tuple[str, bool]:
        """What spec.build has of it, and whether that can't be read."""
        if not spec.build:
            return "", False
        around = ReadContext(self.findings.source)
        read = read_settings(BuildFields, spec.build, ("spec", "build"), around)
        self.findings.problems.extend(read.problems)
        if read.notices:  # one for all of its keys
            rest = ", but for functionSourceCode" if read.values.code else ""
            why = "no image is built; install what the handler needs beside Headrace"
            self.findings.notice(("spec", "build"), f"has no effect here{rest}: {why}")
        return read.values.code, "code" in read.broken
