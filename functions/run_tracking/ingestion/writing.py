"""What was folded of some runs, into the tables: a statement for each, whatever the number of runs."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import sqlalchemy as sa

from headrace.functions.run_tracking.ingestion.folding import RunWrites
from headrace.functions.run_tracking.store.deleting import delete_run
from headrace.functions.run_tracking.store.identities import id_of_name
from headrace.functions.run_tracking.store.tables import (
    BLOBS,
    CONTEXTS,
    CUSTOM_OBJECTS,
    EXPERIMENTS,
    LOG_RECORDS,
    RUN_ATTRS,
    RUN_TAGS,
    RUNS,
    SEQUENCES,
    STEPLESS,
    TAGS,
    TERMINAL_LINES,
    TRACES,
)
from headrace.functions.run_tracking.store.upserts import Row, Upsert, Upserts

_NEW_RUNS = Upsert(RUNS, columns=("id", "created_at"))
_EXPERIMENTS, _TAGS, _RUN_TAGS = Upsert(EXPERIMENTS), Upsert(TAGS), Upsert(RUN_TAGS)
_METRICS = Upsert(SEQUENCES, ("value", "epoch", "time"))
_OBJECTS = Upsert(CUSTOM_OBJECTS, ("value", "epoch", "time"))
_TRACES = Upsert(
    TRACES, ("dtype", "last", "last_step"), where=lambda new: new.last_step >= TRACES.c.last_step
)
_STEPLESS, _CONTEXTS = Upsert(STEPLESS), Upsert(CONTEXTS)
_LINES, _RECORDS = Upsert(TERMINAL_LINES, ("line",)), Upsert(LOG_RECORDS, ("record",))
_BLOBS, _ATTRS = Upsert(BLOBS, ("content_type", "blob_key")), Upsert(RUN_ATTRS, ("attrs",))


class RunWriter:
    """Into one kind of database."""

    def __init__(self, dialect: str) -> None:
        self._upserts = Upserts(dialect)

    def write(self, connection: sa.Connection, runs: Iterable[RunWrites]) -> None:
        """In the caller's transaction. RunWriter it again changes nothing."""
        runs = list(runs)
        for deleted in (run for run in runs if run.is_deleted):
            delete_run(connection, self._upserts, deleted.run_id)
        living = [run for run in runs if not run.is_deleted]
        self._runs(connection, living)
        self._names(connection, living)
        self._steps(connection, living)
        self._rest(connection, living)

    def _runs(self, connection: sa.Connection, runs: Sequence[RunWrites]) -> None:
        self._upserts.write(connection, _NEW_RUNS, ((run.run_id, run.created_at) for run in runs))
        for run in runs:
            values = dict(run.properties)
            if run.experiments:
                values["experiment_id"] = id_of_name(run.experiments[-1])
            if values:
                connection.execute(sa.update(RUNS).where(RUNS.c.id == run.run_id).values(**values))

    def _names(self, connection: sa.Connection, runs: Sequence[RunWrites]) -> None:
        """In one order for all: two workers that add the same names wait for each other, and never both."""
        experiments = sorted({name for run in runs for name in run.experiments})
        self._upserts.write(connection, _EXPERIMENTS, ((id_of_name(name), name) for name in experiments))
        tags = sorted({name for run in runs for name in run.new_tags})
        self._upserts.write(connection, _TAGS, ((id_of_name(name), name) for name in tags))
        added = _each(runs, lambda run: [(id_of_name(n),) for n, has_it in run.tags.items() if has_it])
        self._upserts.write(connection, _RUN_TAGS, added)
        for run in runs:
            if gone := [id_of_name(name) for name, has_it in run.tags.items() if not has_it]:
                of_run = (RUN_TAGS.c.run_id == run.run_id) & RUN_TAGS.c.tag_id.in_(gone)
                connection.execute(sa.delete(RUN_TAGS).where(of_run))

    def _steps(self, connection: sa.Connection, runs: Sequence[RunWrites]) -> None:
        write = self._upserts.write
        write(connection, _METRICS, _each(runs, lambda run: [(*at, *it) for at, it in run.metrics.items()]))
        write(connection, _OBJECTS, _each(runs, lambda run: [(*at, *it) for at, it in run.objects.items()]))
        write(connection, _TRACES, _each(runs, lambda run: [(*at, *it) for at, it in run.traces.items()]))
        write(connection, _STEPLESS, _each(runs, lambda run: run.steps_given.items()))

    def _rest(self, connection: sa.Connection, runs: Sequence[RunWrites]) -> None:
        write = self._upserts.write
        write(connection, _CONTEXTS, _each(runs, lambda run: run.contexts.items()))
        write(connection, _LINES, _each(runs, lambda run: run.lines.items()))
        write(connection, _RECORDS, _each(runs, lambda run: run.records.items()))
        write(connection, _BLOBS, _each(runs, lambda run: [(path, *it) for path, it in run.blobs.items()]))
        attrs = ((run.run_id, run.attrs) for run in runs if run.attrs is not None)
        write(connection, _ATTRS, ((run_id, msgspec.json.encode(it).decode()) for run_id, it in attrs))


def _each(runs: Iterable[RunWrites], rows_of: Callable[[RunWrites], Iterable[Row]]) -> Iterator[Row]:
    return ((run.run_id, *row) for run in runs for row in rows_of(run))
