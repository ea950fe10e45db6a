"""Folding of a run's messages, in order, and of what is stored of it into the rows to write.

Pure and idempotent: the same messages, folded again onto their own result, give the same rows.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from headrace.functions.run_tracking.ingestion.quotas import HParamsTree, OverQuotaError, Quotas
from headrace.functions.run_tracking.messages.envelopes import Message
from headrace.functions.run_tracking.messages.items import (
    AddTag,
    BlobRef,
    CreateRun,
    DeleteRun,
    FinishRun,
    LogCustomObject,
    LogHParams,
    LogMetric,
    LogRecord,
    LogTerminalLine,
    RemoveTag,
    SetRunProperty,
)
from headrace.functions.run_tracking.settings import RunBounds
from headrace.functions.run_tracking.store.tables import context_id, id_of_name

LOG_RECORDS = "__log_records"
"""Name of the sequence that log records are steps of, as Matyan has it."""
# Stored as NULL, since SQLite has no NaN. Infinity isn't among them: both databases hold it.
_NOT_FINITE = ("NaN", None)

SequenceKey = tuple[int, str]
"""Context id and name."""


class Sourced(NamedTuple):
    """A message with its identity, which is the same however often it is delivered."""

    source: str
    message: Message


class Trace(NamedTuple):
    """Summary of a sequence: its highest step, and the value there."""

    dtype: str
    last: float | None
    last_step: int


class Step(NamedTuple):
    """Value at one step of a metric, or of a custom object, whose value is JSON."""

    value: Any
    epoch: int | None
    time: datetime


@dataclass(slots=True)
class StoredRun:
    """The stored state of a run, as far as its messages need it."""

    is_deleted: bool = False
    created_at: datetime | None = None
    started_at: datetime | None = None
    """Start by the client's clock."""
    attrs: dict[str, Any] = field(default_factory=dict)
    last_steps: dict[SequenceKey, int] = field(default_factory=dict)
    assigned_steps: Mapping[str, int] = field(default_factory=dict)
    """Steps that were given to messages without one, by source."""
    quotas: Quotas = field(default_factory=Quotas)
    bounds: RunBounds = field(default_factory=RunBounds)


@dataclass(slots=True)
class RunWrites:
    """Rows to write for one run. The keys of each mapping tell its rows apart."""

    run_id: str
    created_at: datetime
    is_deleted: bool = False
    deletes_run: bool = False
    """Whether one of the messages deletes the run."""
    refused: dict[str, str] = field(default_factory=dict)
    """Messages over the run's limits, by source, with the reason. Nothing of them is written."""
    late_blobs: list[str] = field(default_factory=list)
    """Keys of blobs whose messages came after the run was deleted."""
    properties: dict[str, Any] = field(default_factory=dict)
    """Columns of the run's row."""
    experiments: list[str] = field(default_factory=list)
    """Experiments that the run was assigned to; the last one holds."""
    attrs: dict[str, Any] | None = None
    contexts: dict[int, str] = field(default_factory=dict)
    traces: dict[SequenceKey, Trace] = field(default_factory=dict)
    metrics: dict[tuple[int, str, int], Step] = field(default_factory=dict)
    objects: dict[tuple[int, str, int], Step] = field(default_factory=dict)
    lines: dict[int, str] = field(default_factory=dict)
    records: dict[int, str] = field(default_factory=dict)
    assigned_steps: dict[str, int] = field(default_factory=dict)
    tags: dict[str, bool] = field(default_factory=dict)
    """Whether the run has the tag, by name."""
    new_tags: set[str] = field(default_factory=set)
    blobs: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Content type and key, by artifact path."""


def fold(run_id: str, known: StoredRun, messages: Iterable[Sourced]) -> RunWrites:
    """Fold `messages` of one run, in order, at least one, onto what is `known` of it."""
    messages = list(messages)
    # The time of the first message, whatever its kind, is when a new run was created.
    writes = RunWrites(run_id, messages[0].message.time)
    writes.deletes_run = any(isinstance(it.message.item, DeleteRun) for it in messages)
    if known.is_deleted or writes.deletes_run:
        # Messages before the deletion are deleted with the run, and those after it have no effect.
        writes.is_deleted = True
        refs = (it.message.item for it in messages)
        writes.late_blobs = [str(ref.s3_key) for ref in refs if isinstance(ref, BlobRef)]
        return writes
    folding = _Folding(writes, known)
    for source, message in messages:
        try:
            folding.apply(source, message)
        except OverQuotaError as error:
            # Only this message fails: a later one of the run may name nothing new.
            writes.refused[source] = str(error)
    return writes


class _Folding:
    def __init__(self, writes: RunWrites, known: StoredRun) -> None:
        self._writes, self._known = writes, known
        self._started_at = known.started_at
        self._tree: HParamsTree | None = None

    def apply(self, source: str, message: Message) -> None:  # noqa: C901  # one line for each kind
        writes = self._writes
        # DeleteRun is missing here: `fold` has returned before.
        match message.item:
            case LogMetric() as item:
                self._metric(source, message, item)
            case LogTerminalLine() as item:
                writes.lines[item.step] = _text(item.line)
            case LogRecord() as item:
                self._record(source, item)
            case LogCustomObject() as item:
                self._object(source, message, item)
            case LogHParams() as item:
                self._hparams(item)
            case CreateRun() as item:
                self._create(item)
            case SetRunProperty() as item:
                self._properties(item)
            case AddTag() as item:
                self._add_tag(_text(item.tag_name))
            case RemoveTag() as item:
                self._remove_tag(_text(item.tag_name))
            case BlobRef() as item:
                self._blob(item)
            case FinishRun() as item:
                self._finish(message, item)

    def _create(self, item: CreateRun) -> None:
        """Start the run. An existing run stays as it is, unless it is resumed."""
        if self._started_at is None and item.client_datetime is not None:
            self._started_at = self._writes.properties["client_started_at"] = item.client_datetime
        if item.force_resume:
            self._writes.properties |= {"is_active": True, "finalized_at": None, "duration_seconds": None}

    def _properties(self, item: SetRunProperty) -> None:
        texts = {"name": item.name, "description": item.description}
        self._writes.properties |= {name: _text(text) for name, text in texts.items() if text is not None}
        if item.archived is not None:
            self._writes.properties["is_archived"] = item.archived
        if item.experiment is not None:
            # All are kept, as each gets a row among the experiments; only the last one is the run's.
            self._writes.experiments.append(_text(item.experiment))

    def _finish(self, message: Message, item: FinishRun) -> None:
        """End the run. Its duration is by the client's clock, or the frontier's, never by both."""
        ended, began = item.client_datetime, self._started_at
        if ended is None or began is None:
            ended, began = message.time, self._known_creation()
        # Not below 0: a clock may be set back during the run.
        duration = max(0.0, (_aware(ended) - _aware(began)).total_seconds())
        self._writes.properties |= {
            "is_active": False,
            "finalized_at": _aware(ended),
            "duration_seconds": duration,
        }

    def _known_creation(self) -> datetime:
        return self._known.created_at or self._writes.created_at

    def _hparams(self, item: LogHParams) -> None:
        if isinstance(item.value, dict) and item.value:
            # Only for batches with hyperparameters: weighing a stored tree takes time.
            if self._tree is None:
                self._tree = HParamsTree(self._known.attrs, self._known.bounds)
            self._tree.set(item.value)
            self._writes.attrs = self._tree.attrs

    def _add_tag(self, name: str) -> None:
        if (quota := self._known.quotas.tags) is not None:
            quota.add(id_of_name(name))
        self._writes.tags[name] = True
        self._writes.new_tags.add(name)

    def _remove_tag(self, name: str) -> None:
        if (quota := self._known.quotas.tags) is not None:
            # Makes room for a tag that comes later in this batch.
            quota.discard(id_of_name(name))
        self._writes.tags[name] = False

    def _blob(self, item: BlobRef) -> None:
        path = _text(item.artifact_path)
        if (quota := self._known.quotas.artifacts) is not None:
            quota.add(path)
        self._writes.blobs[path] = _text(item.content_type), _text(str(item.s3_key))

    def _metric(self, source: str, message: Message, item: LogMetric) -> None:
        value = None if item.value in _NOT_FINITE else float(item.value)
        key = self._sequence_key(item)
        step = item.step if item.step is not None else self._next_step(item.message_id or source, key)
        self._trace(key, item.dtype or "float", value, step)
        time = item.client_datetime or message.time
        self._writes.metrics[*key, step] = Step(value, item.epoch, _aware(time))

    def _object(self, source: str, message: Message, item: LogCustomObject) -> None:
        key = self._sequence_key(item)
        step = item.step if item.step is not None else self._next_step(item.message_id or source, key)
        self._trace(key, _text(item.dtype or "custom"), None, step)
        time = item.client_datetime or message.time
        self._writes.objects[*key, step] = Step(_json(item.value), item.epoch, _aware(time))

    def _record(self, source: str, item: LogRecord) -> None:
        # Records come without a step: a sequence of their own, without a context, numbers them.
        key = 0, LOG_RECORDS
        step = self._next_step(item.message_id or source, key)
        self._trace(key, "log_records", None, step)
        self._writes.records[step] = _json(
            {
                "message": item.message,
                "log_level": item.level,
                "timestamp": item.timestamp,
                "args": item.extra_args,
                "logger_info": item.logger_info,
            }
        )

    def _sequence_key(self, item: LogMetric | LogCustomObject) -> SequenceKey:
        written = _json(item.context) if item.context else None
        key = _context_id(written) if written else 0, _text(item.name)
        if (quota := self._known.quotas.sequences) is not None:
            quota.add(key)
        # After the quota: a refused sequence adds no context either.
        if written:
            self._writes.contexts[key[0]] = written
        return key

    def _next_step(self, source: str, key: SequenceKey) -> int:
        """Return the step after the last one, or the step that this message was given before."""
        assigned = self._writes.assigned_steps.get(source, self._known.assigned_steps.get(source))
        if assigned is not None:
            return assigned
        # The last step may be of this batch, or be stored already.
        here, before = self._writes.traces.get(key), self._known.last_steps.get(key, -1)
        step = max(before, here.last_step if here else -1) + 1
        self._writes.assigned_steps[source] = step
        return step

    def _trace(self, key: SequenceKey, dtype: str, last: float | None, step: int) -> None:
        here = self._writes.traces.get(key)
        # Steps may come out of order; of the same step the later message counts.
        if here is None or step >= here.last_step:
            self._writes.traces[key] = Trace(dtype, last, step)


# Runs have few contexts and many points in each.
@lru_cache(maxsize=4096)
def _context_id(written: str) -> int:
    return context_id(json.loads(written))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _text(text: str) -> str:
    """Replace NUL characters, which PostgreSQL's text can't hold."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
