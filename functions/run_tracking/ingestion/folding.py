"""The messages of one run, in order, and what is known of it, folded into what is to be written.

Pure. The same messages, folded again upon what they have led to, lead to the same.
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
"""The sequence that log records are steps of, as Matyan has it."""
_NOT_FINITE = ("NaN", None)

SequenceKey = tuple[int, str]
"""Context and name."""


class Sourced(NamedTuple):
    """A message, and what tells it from all others: the same however often it comes."""

    source: str
    message: Message


class Trace(NamedTuple):
    """Of one sequence: its highest step, and what is there."""

    dtype: str
    last: float | None
    last_step: int


class Step(NamedTuple):
    """Of a metric, or of a custom object, whose value is JSON then."""

    value: Any
    epoch: int | None
    time: datetime


@dataclass(slots=True)
class StoredRun:
    """What is stored of a run, as far as its messages ask for it."""

    is_deleted: bool = False
    created_at: datetime | None = None
    started_at: datetime | None = None
    """By the client's clock."""
    attrs: dict[str, Any] = field(default_factory=dict)
    last_steps: dict[SequenceKey, int] = field(default_factory=dict)
    steps_given: Mapping[str, int] = field(default_factory=dict)
    """To messages without one, by source."""
    quotas: Quotas = field(default_factory=Quotas)
    bounds: RunBounds = field(default_factory=RunBounds)


@dataclass(slots=True)
class RunWrites:
    """What is to be written of one run. Each mapping is by what tells its rows apart."""

    run_id: str
    created_at: datetime
    is_deleted: bool = False
    has_its_end: bool = False
    """Whether one of the messages deletes it."""
    refused: dict[str, str] = field(default_factory=dict)
    """Messages that are over the run's bounds, by source, and why: nothing of them is written."""
    late_blobs: list[str] = field(default_factory=list)
    """Keys in the store that came after their run was deleted."""
    properties: dict[str, Any] = field(default_factory=dict)
    """Columns of its row."""
    experiments: list[str] = field(default_factory=list)
    """That it was said to belong to; it belongs to the last one."""
    attrs: dict[str, Any] | None = None
    contexts: dict[int, str] = field(default_factory=dict)
    traces: dict[SequenceKey, Trace] = field(default_factory=dict)
    metrics: dict[tuple[int, str, int], Step] = field(default_factory=dict)
    objects: dict[tuple[int, str, int], Step] = field(default_factory=dict)
    lines: dict[int, str] = field(default_factory=dict)
    records: dict[int, str] = field(default_factory=dict)
    steps_given: dict[str, int] = field(default_factory=dict)
    tags: dict[str, bool] = field(default_factory=dict)
    """Whether the run has it."""
    new_tags: set[str] = field(default_factory=set)
    blobs: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Content type and key, by the artifact's path."""


def fold(run_id: str, known: StoredRun, messages: Iterable[Sourced]) -> RunWrites:
    """`messages` are all of that run, in order, at least one."""
    messages = list(messages)
    writes = RunWrites(run_id, messages[0].message.time)
    writes.has_its_end = any(isinstance(it.message.item, DeleteRun) for it in messages)
    if known.is_deleted or writes.has_its_end:
        # What came before the end is gone with it, and what came after it comes too late.
        writes.is_deleted = True
        refs = (it.message.item for it in messages)
        writes.late_blobs = [str(ref.s3_key) for ref in refs if isinstance(ref, BlobRef)]
        return writes
    folding = _Folding(writes, known)
    for source, message in messages:
        try:
            folding.take(source, message)
        except OverQuotaError as error:
            writes.refused[source] = str(error)
    return writes


class _Folding:
    def __init__(self, writes: RunWrites, known: StoredRun) -> None:
        self._writes, self._known = writes, known
        self._started_at = known.started_at
        self._tree: HParamsTree | None = None

    def take(self, source: str, message: Message) -> None:  # noqa: C901  # one line for each kind
        writes = self._writes
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
        """A run that is there stays as it is, but for one that is resumed: that one goes on."""
        if self._started_at is None and item.client_datetime is not None:
            self._started_at = self._writes.properties["client_started_at"] = item.client_datetime
        if item.force_resume:
            self._writes.properties |= {"is_active": True, "finalized_at": None, "duration_seconds": None}

    def _properties(self, item: SetRunProperty) -> None:
        said = {"name": item.name, "description": item.description}
        self._writes.properties |= {name: _text(text) for name, text in said.items() if text is not None}
        if item.archived is not None:
            self._writes.properties["is_archived"] = item.archived
        if item.experiment is not None:
            self._writes.experiments.append(_text(item.experiment))

    def _finish(self, message: Message, item: FinishRun) -> None:
        """By the client's clock from end to end, or by the frontier's: never across the two."""
        ended, began = item.client_datetime, self._started_at
        if ended is None or began is None:
            ended, began = message.time, self._known_creation()
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
            if self._tree is None:
                self._tree = HParamsTree(self._known.attrs, self._known.bounds)
            self._tree.set(item.value)
            self._writes.attrs = self._tree.attrs

    def _add_tag(self, name: str) -> None:
        if (quota := self._known.quotas.tags) is not None:
            quota.take(id_of_name(name))
        self._writes.tags[name] = True
        self._writes.new_tags.add(name)

    def _remove_tag(self, name: str) -> None:
        if (quota := self._known.quotas.tags) is not None:
            quota.give_back(id_of_name(name))
        self._writes.tags[name] = False

    def _blob(self, item: BlobRef) -> None:
        path = _text(item.artifact_path)
        if (quota := self._known.quotas.artifacts) is not None:
            quota.take(path)
        self._writes.blobs[path] = _text(item.content_type), _text(str(item.s3_key))

    def _metric(self, source: str, message: Message, item: LogMetric) -> None:
        value = None if item.value in _NOT_FINITE else float(item.value)
        place = self._place(item)
        step = item.step if item.step is not None else self._next_step(item.message_id or source, place)
        self._trace(place, item.dtype or "float", value, step)
        time = item.client_datetime or message.time
        self._writes.metrics[*place, step] = Step(value, item.epoch, _aware(time))

    def _object(self, source: str, message: Message, item: LogCustomObject) -> None:
        place = self._place(item)
        step = item.step if item.step is not None else self._next_step(item.message_id or source, place)
        self._trace(place, _text(item.dtype or "custom"), None, step)
        time = item.client_datetime or message.time
        self._writes.objects[*place, step] = Step(_json(item.value), item.epoch, _aware(time))

    def _record(self, source: str, item: LogRecord) -> None:
        place = 0, LOG_RECORDS
        step = self._next_step(item.message_id or source, place)
        self._trace(place, "log_records", None, step)
        self._writes.records[step] = _json(
            {
                "message": item.message,
                "log_level": item.level,
                "timestamp": item.timestamp,
                "args": item.extra_args,
                "logger_info": item.logger_info,
            }
        )

    def _place(self, item: LogMetric | LogCustomObject) -> SequenceKey:
        written = _json(item.context) if item.context else None
        place = _context_id(written) if written else 0, _text(item.name)
        if (quota := self._known.quotas.sequences) is not None:
            quota.take(place)
        if written:
            self._writes.contexts[place[0]] = written
        return place

    def _next_step(self, source: str, place: SequenceKey) -> int:
        """The one behind the last, or the one that this message has got before."""
        given = self._writes.steps_given.get(source, self._known.steps_given.get(source))
        if given is not None:
            return given
        here, before = self._writes.traces.get(place), self._known.last_steps.get(place, -1)
        step = max(before, here.last_step if here else -1) + 1
        self._writes.steps_given[source] = step
        return step

    def _trace(self, place: SequenceKey, dtype: str, last: float | None, step: int) -> None:
        here = self._writes.traces.get(place)
        if here is None or step >= here.last_step:
            self._writes.traces[place] = Trace(dtype, last, step)


@lru_cache(maxsize=4096)
def _context_id(written: str) -> int:
    return context_id(json.loads(written))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _text(text: str) -> str:
    """No database takes a NUL in a text."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
