"""Reads of what is stored of runs, before their messages are folded."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from headrace.functions.run_tracking.ingestion.folding import LOG_RECORDS, Sourced, StoredRun
from headrace.functions.run_tracking.ingestion.quotas import Quota
from headrace.functions.run_tracking.messages.items import (
    AddTag,
    BlobRef,
    LogCustomObject,
    LogHParams,
    LogMetric,
    LogRecord,
)
from headrace.functions.run_tracking.settings import RunBounds
from headrace.functions.run_tracking.store.tables import (
    BLOBS,
    RUN_ATTRS,
    RUN_TAGS,
    RUNS,
    STEPLESS,
    TOMBSTONES,
    TRACES,
)

_MOST_AT_ONCE = 500  # SQLite limits the parameters of a statement


class _LimitedKind(NamedTuple):
    """A kind of thing that a run may only have so many of, and the columns that name one."""

    what: str
    setting: str
    most: Callable[[RunBounds], int]
    items: tuple[type[Any], ...]
    names: tuple[sa.Column[Any], ...]

    def name_of(self, row: Any) -> Any:
        return tuple(row) if len(self.names) > 1 else row[0]


_LIMITED_KINDS = (
    _LimitedKind(
        "sequences",
        "RUN_MAX_SEQUENCES",
        lambda bounds: bounds.sequences,
        (LogMetric, LogCustomObject),
        (TRACES.c.context_id, TRACES.c.name),
    ),
    _LimitedKind("tags", "RUN_MAX_TAGS", lambda bounds: bounds.tags, (AddTag,), (RUN_TAGS.c.tag_id,)),
    _LimitedKind(
        "artifacts",
        "BLOBS_MAX_FILES_PER_RUN",
        lambda bounds: bounds.artifacts,
        (BlobRef,),
        (BLOBS.c.artifact_path,),
    ),
)


def load_stored_runs(
    connection: sa.Connection, runs: Mapping[str, Sequence[Sourced]], bounds: RunBounds
) -> dict[str, StoredRun]:
    """Return what is stored of each run, as far as its messages need it."""
    found = {run_id: StoredRun(bounds=bounds) for run_id in runs}
    for row in _rows(connection, sa.select(TOMBSTONES.c.run_id), TOMBSTONES.c.run_id, found):
        found[row["run_id"]].is_deleted = True
    columns = sa.select(RUNS.c.id, RUNS.c.created_at, RUNS.c.client_started_at)
    for row in _rows(connection, columns, RUNS.c.id, found):
        stored_run = found[row["id"]]
        stored_run.created_at, stored_run.started_at = row["created_at"], row["client_started_at"]
    # For these runs only: the hyperparameters of one may be 1 MiB.
    with_params = [run_id for run_id, of_run in runs.items() if _any(of_run, LogHParams)]
    for row in _rows(connection, sa.select(RUN_ATTRS), RUN_ATTRS.c.run_id, with_params):
        found[row["run_id"]].attrs = json.loads(row["attrs"])
    for run_id, of_run in runs.items():
        if sources := [_source(it) for it in of_run if _is_stepless(it)]:
            _load_steps(connection, run_id, sources, found[run_id])
    _load_quotas(connection, runs, bounds, found)
    return found


def _load_steps(
    connection: sa.Connection, run_id: str, sources: Sequence[str], stored_run: StoredRun
) -> None:
    of_run = sa.select(STEPLESS.c.source, STEPLESS.c.step).where(STEPLESS.c.run_id == run_id)
    steps = _rows(connection, of_run, STEPLESS.c.source, sources)
    stored_run.assigned_steps = {row["source"]: row["step"] for row in steps}
    # All sequences of the run: only folding computes which of them the messages belong to.
    last = sa.select(TRACES.c.context_id, TRACES.c.name, TRACES.c.last_step).where(TRACES.c.run_id == run_id)
    for context, name, step in connection.execute(last):
        stored_run.last_steps[context, name] = step


def _load_quotas(
    connection: sa.Connection,
    runs: Mapping[str, Sequence[Sourced]],
    bounds: RunBounds,
    found: Mapping[str, StoredRun],
) -> None:
    """Load the names of kinds that the batch might push over a limit; for others a count suffices."""
    for kind in _LIMITED_KINDS:
        most = kind.most(bounds)
        new = {
            run_id: sum(isinstance(it.message.item, kind.items) for it in of) for run_id, of in runs.items()
        }
        table, run = kind.names[0].table, kind.names[0].table.c.run_id
        counted = sa.select(run, sa.func.count().label("stored")).group_by(run)
        affected = [run_id for run_id, count in new.items() if count]
        stored = {row["run_id"]: row["stored"] for row in _rows(connection, counted, run, affected)}
        for run_id in affected:
            # Even if all of them were new, the run would stay within its limit.
            if stored.get(run_id, 0) + new[run_id] <= most:
                continue
            names = connection.execute(sa.select(*kind.names).where(table.c.run_id == run_id))
            quota = Quota(most, kind.what, kind.setting, {kind.name_of(row) for row in names})
            quota.discard((0, LOG_RECORDS))  # log records are no metric of a client
            # `what` is the name of the field in Quotas as well.
            setattr(found[run_id].quotas, kind.what, quota)


def _any(of_run: Iterable[Sourced], kind: type[Any]) -> bool:
    return any(isinstance(it.message.item, kind) for it in of_run)


def _is_stepless(it: Sourced) -> bool:
    item = it.message.item
    return isinstance(item, LogRecord) or (
        isinstance(item, LogMetric | LogCustomObject) and item.step is None
    )


def _source(it: Sourced) -> str:
    """Return the identity by which folding knows the message."""
    return getattr(it.message.item, "message_id", None) or it.source


def _rows(
    connection: sa.Connection, query: Any, column: sa.Column[str], names: Iterable[str]
) -> Iterable[sa.RowMapping]:
    names = list(names)
    for start in range(0, len(names), _MOST_AT_ONCE):
        part = query.where(column.in_(names[start : start + _MOST_AT_ONCE]))
        yield from connection.execute(part).mappings()
