"""Functions as the runtime knows them: what a function.yaml says, checked and filled up with defaults."""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from headrace.runtime.config.function_fields import LOG_LEVELS, MetadataFields, SpecFields, split_handler
from headrace.runtime.config.output import OutputSpec, place_of
from headrace.runtime.config.spark import SparkSpec
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.errors import Problem
from headrace.runtime.settings.findings import ResolvedSetting
from headrace.runtime.settings.yaml_source import Path, YamlSource


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """A function. `path` is its function.yaml, `folder` where its handler's module is found.

    `metadata` and `fields` are what the file says, validated. `spark` is None where the file asks for none.
    `code` is the handler's module where the file holds that itself, else empty. `notices` are lines to show,
    none of them a problem. `settings` are all that are in effect, without secrets.
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
    """Whether mlrun wrote it: by default acks then mean all records up to theirs; events have no `key`."""
    function_addresses: Mapping[str, str] = field(default_factory=dict)
    """Addresses, `host:port`, at which the functions of its run are called, by name. Empty until it runs."""
    is_debugged: bool = False
    """Whether its workers have the terminal."""

    def problem(self, path: Path, message: str) -> Problem:
        """Return a problem at `path`, for one that shows only beside other functions, or on this machine."""
        return self.source.problem(path, message)

    @property
    def name(self) -> str:
        """Name in its metadata, or one like the folder's where the file has no metadata."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Namespace in its metadata: the handler's context and the metrics have it."""
        return self.metadata.namespace

    @property
    def project(self) -> str:
        """Label nuclio.io/project-name; Nuclio's default where there is none."""
        # Labels are taken as they are written, so this may be anything.
        labels = self.metadata.labels if isinstance(self.metadata.labels, dict) else {}
        return str(labels.get("nuclio.io/project-name", "default"))

    @property
    def handler_log_level(self) -> int | None:
        """Lowest level in spec.loggerSinks, in Python's numbers; None where there is none."""
        levels = [entry.get("level", "info").lower() for entry in self.fields.logger_sinks]
        return min((LOG_LEVELS[level] for level in levels), default=None)

    @property
    def worker_env(self) -> dict[str, str]:
        """Variables of its workers besides inherited ones: spec.env, and those that Nuclio sets."""
        version = self.fields.version
        return {
            "NUCLIO_FUNCTION_NAME": self.name,
            "NUCLIO_FUNCTION_DESCRIPTION": self.fields.description,
            "NUCLIO_FUNCTION_VERSION": "" if version is None else str(version),
            "NUCLIO_FUNCTION_HANDLER": self.handler,
            "NUCLIO_HANDLER": self.handler,
            # PySpark takes times without a zone, as event.timestamp is, for the process's own.
            **({"TZ": "UTC"} if self.spark else {}),
            # Last: what the file says beats what Nuclio sets.
            **self.env,
        }

    def with_env(self, passed: Mapping[str, str]) -> Self:
        """Return the function with these variables for its handler, where it has none of that name itself."""
        return replace(self, env={**passed, **self.env})

    def worker_owner_of(self, spec: TriggerSpec) -> TriggerSpec:
        """Return the trigger whose workers `spec` uses: itself, or the stream with its workerAllocatorName.

        Where none of these reads a stream, the first one has the workers.
        """
        shared = spec.fields.worker_allocator_name
        sharers = [it for it in self.triggers if shared and it.fields.worker_allocator_name == shared]
        return next((it for it in sharers if it.is_stream), (sharers or [spec])[0])

    def sharers_of(self, spec: TriggerSpec) -> Sequence[TriggerSpec]:
        """Return the other triggers that use the workers of `spec`, in the order of the file."""
        return [it for it in self.triggers if it is not spec and self.worker_owner_of(it) is spec]

    @property
    def triggers_by_owner(self) -> Sequence[TriggerSpec]:
        """Triggers, those with workers of their own first."""
        return sorted(self.triggers, key=lambda spec: self.worker_owner_of(spec) is not spec)

    @property
    def handler(self) -> str:
        """Handler as it is written: `module:function`."""
        return self.fields.handler

    @property
    def handler_module(self) -> str:
        """Name of the handler's module."""
        return split_handler(self.handler)[0]

    @property
    def handler_function(self) -> str:
        """Name of the handler's function in its module."""
        return split_handler(self.handler)[1]

    @property
    def disabled(self) -> bool:
        """Whether spec.disable says that it shall not run."""
        return self.fields.disable

    @property
    def produce_topics(self) -> frozenset[tuple[str, str]] | None:
        """The only places for messages of its handlers, by output and topic; None: there is no list."""
        # An empty list allows no topic, no list allows every one.
        is_given = "produce_topics" in self.fields.model_fields_set
        return frozenset(map(place_of, self.fields.produce_topics)) if is_given else None

    @property
    def event_timeout_seconds(self) -> float | None:
        """Limit of one call of the handler; None: there is no limit."""
        # 0 is the default, which stands for no limit; the file itself can't say 0.
        return self.fields.event_timeout_seconds or None

    @property
    def memory_limit_bytes(self) -> int | None:
        """Limit of one worker; None: there is no limit."""
        return self.fields.resources.limits.memory_bytes or None
