"""Entries of `spec.triggers`: their common fields, their kind's settings, and the rules between."""

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
    """An enabled trigger. `kind` is the canonical name, `settings` the kind's own model.

    `origins` says, by dotted Python name, which settings are no defaults: "attribute", "annotation", "command
    line", or "fallback" (taken from the trigger's own fields, as brokers from url). `fields` is what stands
    beside the attributes, validated.
    """

    name: str
    kind: str
    fields: TriggerFields = field(repr=False)  # attributes are as written and may hold secrets
    settings: Any  # the kind's own model, which only its trigger and the kind's users know
    origins: Mapping[str, Origin] = field(default_factory=dict)
    replica_count: int = 1
    """How many replicas share its source, by the file and the command line, where its kind goes by that."""
    replica_index: int | None = None
    """Number of the replica on this machine that runs it, from 0; None where there is only one."""

    @property
    def is_stream(self) -> bool:
        """Whether it reads partitions."""
        return self.kind not in NO_STREAMS

    @property
    def num_workers(self) -> int:
        """How many worker processes it has."""
        return self.fields.worker_count

    @property
    def worker_termination_timeout_seconds(self) -> float:
        """How long a stop waits for handlers."""
        return self.fields.worker_termination_timeout_seconds

    @property
    def explicit_ack_mode(self) -> str:
        """`explicitAckMode`, as the file spells it."""
        return self.fields.explicit_ack_mode


def _belong_to(model: type[Settings], where: str) -> dict[str, str]:
    return {declared.setting.key: where for declared in fields_of(model)}


def _variables_of(model: type[Settings]) -> dict[str, str]:
    """Return the environment's variables that stand in for settings of the model, by name.

    A setting that has an option too is left out: the command has read its variable.
    """
    named = [declared.setting for declared in fields_of(model)]
    return {
        it.environment: os.environ[it.environment]
        for it in named
        if not it.option and it.environment in os.environ
    }


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """Settings that a command's options give instead of the functions' files.

    `option_values` are their values, by the option. `only_kind`: triggers of other kinds are left out.
    """

    option_values: Mapping[str, OverrideValue] = field(default_factory=dict)
    only_kind: str = ""


@dataclass(frozen=True, slots=True)
class TriggerReader:
    """Reads `spec.triggers`. The findings are the caller's; reading adds to them."""

    findings: Findings
    folder: pathlib.Path
    annotations: Mapping[str, str]
    kinds: Mapping[str, TriggerKind]
    command: CommandSettings

    def read_all(self, written: object, *, has_default: bool) -> tuple[TriggerSpec, ...]:
        """Return every enabled trigger without a problem. A file without an enabled one is a problem.

        With `has_default`, a file without any trigger gets an http trigger, as in Nuclio.
        """
        if isinstance(written, dict) and has_default and self._has_none(written):
            self.findings.notice(TRIGGERS, "there are none, so the function gets one of kind http")
            # --set may give attributes of it: triggers.default-http.attributes.port, say.
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
        if not enabled and not refused:  # a refused name is problem enough
            self.findings.problem(TRIGGERS, "no trigger is enabled; the function would never get an event")
        self._check_shared_workers(enabled)
        # All of them, also after a problem: a file's mistakes are found at once.
        specs = [self._spec(name, read) for name, read in enabled.items()]
        return tuple(spec for spec in specs if spec is not None)

    def _has_none(self, written: Mapping[str, Any]) -> bool:
        """Whether the file has no trigger; `--set` may say more of the default one that it gets then."""
        in_file = any((*TRIGGERS, name) in self.findings.source.lines for name in written)
        is_built = "http" in self.kinds and not self.command.only_kind
        return not in_file and written.keys() <= {DEFAULT} and is_built

    def _is_refused(self, name: str, entry: object, written: Mapping[str, object]) -> bool:
        """Whether `--set` names a trigger that isn't in the file, and doesn't make a whole one."""
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
        if not self.command.only_kind or not isinstance(written, str):
            return False
        kind = find_kind(written, self.kinds)
        is_other = kind.kind != self.command.only_kind if kind else written in NUCLIO_KINDS
        if is_other:
            path = (*TRIGGERS, name, "kind")
            self.findings.notice(path, f"the trigger is left out: only {self.command.only_kind} is asked for")
        return is_other

    def _fields(self, name: str, entry: object) -> ReadResult[TriggerFields]:
        path = (*TRIGGERS, name)
        written = entry.get("kind") if isinstance(entry, dict) else None
        kind = find_kind(written, self.kinds) if isinstance(written, str) else None
        # A key that belongs one level deeper gets a message that says so.
        elsewhere = _belong_to(kind.Settings, f"it is an attribute of {kind.kind}") if kind else {}
        context = ReadContext(self.findings.source, self.annotations, elsewhere=elsewhere)
        read = read_settings(trigger_fields([kind] if kind else []), entry, path, context)
        self.findings.add_messages_of(read)
        if read.values.disabled:  # its rules and attributes are checked once it is enabled again
            self.findings.notice((*path, "disabled"), "the trigger is disabled and left out")
            return read
        if read.values.name not in ("", name):
            self.findings.problem((*path, "name"), f"{read.values.name!r} must equal its key, {name!r}")
        for rule in TriggerFields.rules:
            self.findings.check(rule, read, read)
        # After the rules, which judge what is written.
        return self._without_idle(read, kind.Settings.idle_fields if kind else {})

    def _without_idle(
        self, read: ReadResult[TriggerFields], idle: Mapping[str, str]
    ) -> ReadResult[TriggerFields]:
        """Drop fields that mean nothing to the kind, with a notice for each."""
        given = idle.keys() & read.values.model_fields_set
        for name in sorted(given):
            self.findings.notice(read.paths[name], idle[name])
        defaults = {name: type(read.values).model_fields[name].default for name in given}
        return replace(read, values=read.values.model_copy(update=defaults)) if given else read

    def _check_shared_workers(self, enabled: Mapping[str, ReadResult[TriggerFields]]) -> None:
        sharers: dict[str, list[tuple[str, TriggerFields]]] = {}
        for name, read in enabled.items():
            # Each is compared with all before it: any two of them have to fit.
            if shared := read.values.worker_allocator_name:
                before = sharers.setdefault(shared, [])
                faults = (sharing_fault(other, other_fields, read.values) for other, other_fields in before)
                if fault := next(filter(None, faults), None):
                    self.findings.problem(read.paths["worker_allocator_name"], fault)
                before.append((name, read.values))

    def _spec(self, name: str, common: ReadResult[TriggerFields]) -> TriggerSpec | None:
        kind = None if "kind" in common.broken else self._kind(common)
        if kind is None:
            self._read_as_likely_kind(common)
            return None
        written, path = common.values.attributes, common.paths["attributes"]
        own: ReadResult[Settings] = read_settings(kind.Settings, written, path, self._context(kind, common))
        self.findings.add_messages_of(own)
        for rule in kind.Settings.rules:
            self.findings.check(rule, own, common)
        # --resolved shows the number that runs: maxWorkers may stand in for numWorkers.
        workers = common.values.model_copy(update={"num_workers": common.values.worker_count})
        self.findings.add_settings_of(replace(common, values=workers))
        self.findings.add_settings_of(own)
        is_whole = not common.broken and not own.broken
        return TriggerSpec(name, kind.kind, common.values, own.values, own.origins) if is_whole else None

    def _read_as_likely_kind(self, common: ReadResult[TriggerFields]) -> None:
        """Read attributes for their problems alone, where the file doesn't rightly say which kind it is."""
        written, path = common.values.attributes, common.paths["attributes"]
        # Nothing is known here of the attributes that Nuclio's other kinds have. Where `kind` has a problem,
        # the model was made without it.
        if not isinstance(written, dict) or getattr(common.values, "kind", "") in NUCLIO_KINDS:
            return
        keys = {key.lower() for key in written}
        known = {
            kind.kind: len(keys & {declared.setting.key.lower() for declared in fields_of(kind.Settings)})
            for kind in self.kinds.values()
        }
        likely = max(known, key=known.__getitem__, default="")  # the kind that has most of the keys
        if likely and known[likely]:
            context = self._context(self.kinds[likely], common)
            self.findings.problems.extend(
                read_settings(self.kinds[likely].Settings, written, path, context).problems
            )

    def _context(self, kind: TriggerKind, common: ReadResult[TriggerFields]) -> ReadContext:
        return ReadContext(
            self.findings.source,
            self.annotations,
            environment=_variables_of(kind.Settings),
            option_values=self.command.option_values,
            elsewhere=_belong_to(TriggerFields, "it is a field of the trigger, beside attributes"),
            fallbacks=kind.Settings.fallbacks(common.values),
            is_case_folded=True,  # of attributes alone, as in Nuclio
            is_typed=True,
            folder=self.folder,
        )

    def _kind(self, common: ReadResult[TriggerFields]) -> TriggerKind | None:
        kind = find_kind(common.values.kind, self.kinds)
        if kind is None:
            message = why_not_found(common.values.kind, self.kinds, str(common.path[-1]))
            self.findings.problem(common.paths["kind"], message)
        return kind
