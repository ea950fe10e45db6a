"""Writer of a batch of messages: whole runs in one transaction, and each message once in effect."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa

from headrace.functions.run_tracking.ingestion.folding import RunWrites, Sourced, fold
from headrace.functions.run_tracking.ingestion.stored_runs import load_stored_runs
from headrace.functions.run_tracking.settings import RunBounds
from headrace.functions.run_tracking.store.statements import Row, Upsert, Upserts, delete_run
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
    id_of_name,
)

# Updates nothing: an existing run keeps the time of its first message.
_NEW_RUNS = Upsert(RUNS, columns=("id", "created_at"))
_EXPERIMENTS, _TAGS, _RUN_TAGS = Upsert(EXPERIMENTS), Upsert(TAGS), Upsert(RUN_TAGS)
_METRICS = Upsert(SEQUENCES, ("value", "epoch", "time"))
_OBJECTS = Upsert(CUSTOM_OBJECTS, ("value", "epoch", "time"))
# A redelivered message may have a lower step than what is stored: the highest stays.
_TRACES = Upsert(
    TRACES, ("dtype", "last", "last_step"), where=lambda new: new.last_step >= TRACES.c.last_step
)
_STEPLESS, _CONTEXTS = Upsert(STEPLESS), Upsert(CONTEXTS)
_LINES, _RECORDS = Upsert(TERMINAL_LINES, ("line",)), Upsert(LOG_RECORDS, ("record",))
_BLOBS, _ATTRS = Upsert(BLOBS, ("content_type", "blob_key")), Upsert(RUN_ATTRS, ("attrs",))
# Errors about the content of a message, which a retry would meet again. Any other may pass.
_CONTENT_ERRORS = (sa.exc.DataError, sa.exc.IntegrityError, OverflowError, ValueError, RecursionError)


class RunWriter:
    """Writes folded runs to the tables, with one statement for each table, whatever the number of runs."""

    def __init__(self, dialect: str) -> None:
        self._upserts = Upserts(dialect)

    def write(self, connection: sa.Connection, runs: Iterable[RunWrites]) -> None:
        """Write runs in the caller's transaction. Idempotent."""
        runs = list(runs)
        for deleted in (run for run in runs if run.is_deleted):
            delete_run(connection, self._upserts, deleted.run_id)
        living = [run for run in runs if not run.is_deleted]
        self._write_runs(connection, living)
        self._write_names(connection, living)
        self._write_steps(connection, living)
        self._write_rest(connection, living)

    def _write_runs(self, connection: sa.Connection, runs: Sequence[RunWrites]) -> None:
        self._upserts.write(connection, _NEW_RUNS, ((run.run_id, run.created_at) for run in runs))
        for run in runs:
            # Each run sets other columns, so each has a statement of its own.
            values = dict(run.properties)
            if run.experiments:
                values["experiment_id"] = id_of_name(run.experiments[-1])
            if values:
                connection.execute(sa.update(RUNS).where(RUNS.c.id == run.run_id).values(**values))

    def _write_names(self, connection: sa.Connection, runs: Sequence[RunWrites]) -> None:
        """Write experiments and tags, sorted: two workers that add the same names can't deadlock then."""
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

    def _write_steps(self, connection: sa.Connection, runs: Sequence[RunWrites]) -> None:
        write = self._upserts.write
        write(connection, _METRICS, _each(runs, lambda run: [(*at, *it) for at, it in run.metrics.items()]))
        write(connection, _OBJECTS, _each(runs, lambda run: [(*at, *it) for at, it in run.objects.items()]))
        write(connection, _TRACES, _each(runs, lambda run: [(*at, *it) for at, it in run.traces.items()]))
        write(connection, _STEPLESS, _each(runs, lambda run: run.assigned_steps.items()))

    def _write_rest(self, connection: sa.Connection, runs: Sequence[RunWrites]) -> None:
        write = self._upserts.write
        write(connection, _CONTEXTS, _each(runs, lambda run: run.contexts.items()))
        write(connection, _LINES, _each(runs, lambda run: run.lines.items()))
        write(connection, _RECORDS, _each(runs, lambda run: run.records.items()))
        write(connection, _BLOBS, _each(runs, lambda run: [(path, *it) for path, it in run.blobs.items()]))
        attrs = ((run.run_id, run.attrs) for run in runs if run.attrs is not None)
        write(connection, _ATTRS, ((run_id, msgspec.json.encode(it).decode()) for run_id, it in attrs))


def _each(runs: Iterable[RunWrites], rows_of: Callable[[RunWrites], Iterable[Row]]) -> Iterator[Row]:
    return ((run.run_id, *row) for run in runs for row in rows_of(run))


@dataclass(slots=True)
class BatchOutcome:
    """Result of a batch, besides the rows that were written."""

    failed: dict[str, str] = field(default_factory=dict)
    """Reason by source of each message that failed. All others are written."""
    deleted: set[str] = field(default_factory=set)
    """Runs that a message has deleted."""
    late_blobs: dict[str, list[str]] = field(default_factory=dict)
    """Keys of blobs that came after their run was deleted, by run."""


class BatchWriter:
    """Writes messages to one database. Blocks; after any SQLAlchemy error they may be written again."""

    def __init__(
        self, engine: sa.Engine, messages_per_transaction: int, bounds: RunBounds | None = None
    ) -> None:
        self._engine = engine
        self._most, self._bounds = messages_per_transaction, bounds or RunBounds()
        self._run_writer = RunWriter(engine.dialect.name)

    def write(self, messages: Sequence[Sourced]) -> BatchOutcome:
        """Write messages, each run's in order. Raises if the database can't be reached.

        Some may be written then; writing all again is safe.
        """
        outcome = BatchOutcome()
        for part in _parts(messages, self._most):
            self._write(part, outcome)
        return outcome

    def _write(self, messages: Sequence[Sourced], outcome: BatchOutcome) -> None:
        """Write messages in one transaction; find one that the database refuses by bisection."""
        try:
            self._transact(messages, outcome)
        except _CONTENT_ERRORS as error:
            if len(messages) == 1:
                outcome.failed[messages[0].source] = " ".join(str(getattr(error, "orig", error)).split())
                return
            middle = len(messages) // 2
            # The first half first: each run's messages stay in order.
            self._write(messages[:middle], outcome)
            self._write(messages[middle:], outcome)

    def _transact(self, messages: Sequence[Sourced], outcome: BatchOutcome) -> None:
        runs: dict[str, list[Sourced]] = {}
        for it in messages:
            runs.setdefault(it.message.run_id, []).append(it)
        with self._engine.begin() as connection:
            known = load_stored_runs(connection, runs, self._bounds)
            # Sorted, so that two workers lock runs in the same order.
            writes = [fold(run_id, known[run_id], of_run) for run_id, of_run in sorted(runs.items())]
            self._run_writer.write(connection, writes)
        # Only after the commit: where that fails, nothing is noted, and the messages are written in halves.
        for run in writes:
            outcome.failed |= run.refused
            if run.deletes_run:
                outcome.deleted.add(run.run_id)
            # A run that ends here has all its blobs deleted anyway.
            elif run.late_blobs:
                outcome.late_blobs.setdefault(run.run_id, []).extend(run.late_blobs)


def _parts(messages: Sequence[Sourced], most: int) -> Iterator[list[Sourced]]:
    """Split messages into transactions of at most `most`; a run is split only if it alone has more."""
    runs: dict[str, list[Sourced]] = {}
    for it in messages:
        runs.setdefault(it.message.run_id, []).append(it)
    part: list[Sourced] = []
    # Between runs the order of messages doesn't matter.
    for of_run in runs.values():
        for start in range(0, len(of_run), most):
            chunk = of_run[start : start + most]
            if part and len(part) + len(chunk) > most:
                yield part
                part = []
            part += chunk
    if part:
        yield part
