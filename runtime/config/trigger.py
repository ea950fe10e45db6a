"""One entry of `spec.triggers`: its common fields, its kind's settings, and the rules between."""

import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.runtime.config.trigger_fields import NO_STREAMS, TriggerFields, sharing_fault
from headrace.runtime.config.trigger_kinds import (
    NUCLIO_KINDS,
    TriggerKind,
    find_kind,
    trigger_fields,
    why_not_found,
)
from headrace.runtime.settings.declare import Settings, fields_of
from headrace.runtime.settings.findings import Findings
from headrace.runtime.settings.reader import Origin, OverrideValue, ReadContext, ReadResult, read_settings
from headrace.runtime.settings.yaml_source import Path

TRIGGERS: Path = ("spec", "triggers")
DEFAULT = "default-http"
"""Nuclio's name for the trigger of a function that has none."""


@dataclass(frozen=True, slots=True)
class TriggerSpec:
    """One enabled trigger. `kind` is the canonical name, `settings` the kind's own model.

    `origins` says, by dotted Python name, which settings are no defaults: "attribute", "annotation",
    "command line", or "fallback" (taken from the trigger's own fields, as brokers from url).
    `fields` is what stands beside the attributes, validated; some of it in other words below.
    """

    name: str
    kind: str
    fields: TriggerFields = field(repr=False)  # attributes are as written and may hold secrets
    settings: Any  # the kind's own model, which only its trigger and the kind's users know
    origins: Mapping[str, Origin] = field(default_factory=dict)
    replica_count: int = 1
    """How many replicas share its source, by the file and the command line, where its kind goes by that."""
    replica_index: int | None = None
    """Which of the replicas on this machine runs it, from 0; None where there is only one."""

    @property
    def is_stream(self) -> bool:
        """It reads partitions."""
        return self.kind not in NO_STREAMS

    @property
    def num_workers(self) -> int:
        """Worker processes."""
        return self.fields.worker_count

    @property
    def worker_termination_timeout_seconds(self) -> float:
        """How long a stop waits for handlers."""
        return self.fields.worker_termination_timeout_seconds

    @property
    def explicit_ack_mode(self) -> str:
        """explicitAckMode."""
        return self.fields.explicit_ack_mode


def _belong_to(model: type[Settings], where: str) -> dict[str, str]:
    return {declared.setting.key: where for declared in fields_of(model)}


def _variables_of(model: type[Settings]) -> dict[str, str]:
    """Those that stand in for its settings; what an option may say too is among what a command says."""
    named = [declared.setting for declared in fields_of(model)]
    return {
        it.environment: os.environ[it.environment]
        for it in named
        if not it.option and it.environment in os.environ
    }


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """What a command says of functions beside their files.

    `instead` is what its options say, by their names. `only_kind`: triggers of other kinds are left out.
    """

    instead: Mapping[str, OverrideValue] = field(default_factory=dict)
    only_kind: str = ""


@dataclass(frozen=True, slots=True)
class TriggerReader:
    """What triggers are read with. The findings are the caller's; reading adds to them."""

    findings: Findings
    folder: pathlib.Path
    annotations: Mapping[str, str]
    kinds: Mapping[str, TriggerKind]
    beside: CommandSettings

    def read_all(self, written: object, *, has_default: bool) -> tuple[TriggerSpec, ...]:
        """Every enabled trigger without a problem. A file without an enabled one is a problem.

        With `has_default`, one that has none at all gets an http trigger, as in Nuclio.
        """
        if isinstance(written, dict) and has_default and self._has_none(written):
            self.findings.notice(TRIGGERS, "there are none, so the function gets one of kind http")
            written = {DEFAULT: {"kind": "http", **written.get(DEFAULT, {})}}
        if not isinstance(written, dict):
            self.findings.problem(TRIGGERS, "expected a mapping from each trigger's name to its fields")
            return ()
        refused = {name for name, entry in written.items() if self._is_refused(name, entry, written)}
        fields = {
            name: self._fields(name, entry)
            for name, entry in written.items()
            if name not in refused and not self._is_left_out(name, entry)
        }
        enabled = {name: read for name, read in fields.items() if not read.values.disabled}
        if not enabled and not refused:
            self.findings.problem(TRIGGERS, "no trigger is enabled; the function would never get an event")
        self._check_shared_workers(enabled)
        specs = [self._spec(name, read) for name, read in enabled.items()]
        return tuple(spec for spec in specs if spec is not None)

    def _has_none(self, written: Mapping[str, Any]) -> bool:
        """The file; `--set` may say more of the one that it gets then."""
        in_file = any((*TRIGGERS, name) in self.findings.source.lines for name in written)
        is_built = "http" in self.kinds and not self.beside.only_kind
        return not in_file and written.keys() <= {DEFAULT} and is_built

    def _is_refused(self, name: str, entry: object, written: Mapping[str, object]) -> bool:
        """Whether `--set` names a trigger that isn't there, and doesn't make one."""
        source = self.findings.source
        is_of_file = (*TRIGGERS, name) in source.lines or not source.is_overridden((*TRIGGERS, name))
        if is_of_file or (isinstance(entry, dict) and "kind" in entry):
            return False
        names = ", ".join(name for name in written if (*TRIGGERS, name) in source.lines) or "none"
        message = f"is no trigger of the file, which has {names}; a whole one needs its kind"
        self.findings.problem((*TRIGGERS, name), message)
        return True

    def _is_left_out(self, name: str, entry: object) -> bool:
        written = entry.get("kind") if isinstance(entry, dict) else None
        if not self.beside.only_kind or not isinstance(written, str):
            return False
        kind = find_kind(written, self.kinds)
        is_other = kind.kind != self.beside.only_kind if kind else written in NUCLIO_KINDS
        if is_other:
            path = (*TRIGGERS, name, "kind")
            self.findings.notice(path, f"the trigger is left out: only {self.beside.only_kind} is asked for")
        return is_other

    def _fields(self, name: str, entry: object) -> ReadResult[TriggerFields]:
        path = (*TRIGGERS, name)
        written = entry.get("kind") if isinstance(entry, dict) else None
        kind = find_kind(written, self.kinds) if isinstance(written, str) else None
        elsewhere = _belong_to(kind.Settings, f"it is an attribute of {kind.kind}") if kind else {}
        around = ReadContext(self.findings.source, self.annotations, elsewhere=elsewhere)
        read = read_settings(trigger_fields([kind] if kind else []), entry, path, around)
        self.findings.keep(read)
        if read.values.disabled:
            self.findings.notice((*path, "disabled"), "the trigger is disabled and left out")
            return read
        if read.values.name not in ("", name):
            self.findings.problem((*path, "name"), f"{read.values.name!r} must equal its key, {name!r}")
        for rule in TriggerFields.rules:
            self.findings.check(rule, read, read)
        return self._without_idle(read, kind.Settings.idle_fields if kind else {})

    def _without_idle(
        self, read: ReadResult[TriggerFields], idle: Mapping[str, str]
    ) -> ReadResult[TriggerFields]:
        """As if the file did not have the fields that mean nothing to the kind. It says so of each."""
        given = idle.keys() & read.values.model_fields_set
        for name in sorted(given):
            self.findings.notice(read.paths[name], idle[name])
        defaults = {name: type(read.values).model_fields[name].default for name in given}
        return replace(read, values=read.values.model_copy(update=defaults)) if given else read

    def _check_shared_workers(self, enabled: Mapping[str, ReadResult[TriggerFields]]) -> None:
        sharers: dict[str, list[tuple[str, TriggerFields]]] = {}
        for name, read in enabled.items():
            if shared := read.values.worker_allocator_name:
                before = sharers.setdefault(shared, [])
                faults = (sharing_fault(other, theirs, read.values) for other, theirs in before)
                if fault := next(filter(None, faults), None):
                    self.findings.problem(read.paths["worker_allocator_name"], fault)
                before.append((name, read.values))

    def _spec(self, name: str, common: ReadResult[TriggerFields]) -> TriggerSpec | None:
        kind = None if "kind" in common.broken else self._kind(common)
        if kind is None:
            self._read_as_likely_kind(common)
            return None
        written, path = common.values.attributes, common.paths["attributes"]
        own: ReadResult[Settings] = read_settings(kind.Settings, written, path, self._around(kind, common))
        self.findings.keep(own)
        for rule in kind.Settings.rules:
            self.findings.check(rule, own, common)
        workers = common.values.model_copy(update={"num_workers": common.values.worker_count})
        self.findings.resolve(replace(common, values=workers))
        self.findings.resolve(own)
        is_whole = not common.broken and not own.broken
        return TriggerSpec(name, kind.kind, common.values, own.values, own.origins) if is_whole else None

    def _read_as_likely_kind(self, common: ReadResult[TriggerFields]) -> None:
        """For its problems only, where the file doesn't say which kind it is, or not rightly."""
        written, path = common.values.attributes, common.paths["attributes"]
        if not isinstance(written, dict) or getattr(common.values, "kind", "") in NUCLIO_KINDS:
            return
        keys = {key.lower() for key in written}
        known = {
            kind.kind: len(keys & {declared.setting.key.lower() for declared in fields_of(kind.Settings)})
            for kind in self.kinds.values()
        }
        likely = max(known, key=known.__getitem__, default="")
        if likely and known[likely]:
            around = self._around(self.kinds[likely], common)
            self.findings.problems.extend(
                read_settings(self.kinds[likely].Settings, written, path, around).problems
            )

    def _around(self, kind: TriggerKind, common: ReadResult[TriggerFields]) -> ReadContext:
        return ReadContext(
            self.findings.source,
            self.annotations,
            environment=_variables_of(kind.Settings),
            instead=self.beside.instead,
            elsewhere=_belong_to(TriggerFields, "it is a field of the trigger, beside attributes"),
            fallbacks=kind.Settings.fallbacks(common.values),
            is_case_folded=True,
            is_typed=True,
            folder=self.folder,
        )

    def _kind(self, common: ReadResult[TriggerFields]) -> TriggerKind | None:
        kind = find_kind(common.values.kind, self.kinds)
        if kind is None:
            message = why_not_found(common.values.kind, self.kinds, str(common.path[-1]))
            self.findings.problem(common.paths["kind"], message)
        return kind
