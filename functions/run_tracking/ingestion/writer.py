"""A batch's messages into the database: whole runs in a transaction, and each message once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from headrace.functions.run_tracking.ingestion.folding import Sourced, fold
from headrace.functions.run_tracking.ingestion.stored_runs import load_stored_runs
from headrace.functions.run_tracking.ingestion.writing import RunWriter
from headrace.functions.run_tracking.settings import RunBounds

# Of what a message says: writing it again says the same. All else is the database's, and may pass.
_OF_THE_MESSAGES = (sa.exc.DataError, sa.exc.IntegrityError, OverflowError, ValueError, RecursionError)


@dataclass(slots=True)
class BatchOutcome:
    """What became of a batch, beside what was written."""

    failed: dict[str, str] = field(default_factory=dict)
    """Why, by source. All others are written."""
    deleted: set[str] = field(default_factory=set)
    """Runs of which a message is the end."""
    late_blobs: dict[str, list[str]] = field(default_factory=dict)
    """Keys of blobs that came after that, by run."""


class BatchWriter:
    """Blocks. After any error of SQLAlchemy's the same messages may be written again."""

    def __init__(
        self, engine: sa.Engine, messages_per_transaction: int, bounds: RunBounds | None = None
    ) -> None:
        self._engine = engine
        self._most, self._bounds = messages_per_transaction, bounds or RunBounds()
        self._writing = RunWriter(engine.dialect.name)

    def write(self, messages: Sequence[Sourced]) -> BatchOutcome:
        """Each run's in order. Raises where the database is away: nobody knows how many are written then."""
        outcome = BatchOutcome()
        for part in _parts(messages, self._most):
            self._write(part, outcome)
        return outcome

    def _write(self, messages: Sequence[Sourced], outcome: BatchOutcome) -> None:
        """What is refused is found by halves: a message fails by itself, and takes none along."""
        try:
            self._transact(messages, outcome)
        except _OF_THE_MESSAGES as error:
            if len(messages) == 1:
                outcome.failed[messages[0].source] = " ".join(str(getattr(error, "orig", error)).split())
                return
            middle = len(messages) // 2
            self._write(messages[:middle], outcome)
            self._write(messages[middle:], outcome)

    def _transact(self, messages: Sequence[Sourced], outcome: BatchOutcome) -> None:
        runs: dict[str, list[Sourced]] = {}
        for it in messages:
            runs.setdefault(it.message.run_id, []).append(it)
        with self._engine.begin() as connection:
            known = load_stored_runs(connection, runs, self._bounds)
            writes = [fold(run_id, known[run_id], of_run) for run_id, of_run in sorted(runs.items())]
            self._writing.write(connection, writes)
        for run in writes:
            outcome.failed |= run.refused
            if run.has_its_end:
                outcome.deleted.add(run.run_id)
            elif run.late_blobs:
                outcome.late_blobs.setdefault(run.run_id, []).extend(run.late_blobs)


def _parts(messages: Sequence[Sourced], most: int) -> Iterator[list[Sourced]]:
    """Of at most so many messages; the messages of a run are split only where they alone are more."""
    runs: dict[str, list[Sourced]] = {}
    for it in messages:
        runs.setdefault(it.message.run_id, []).append(it)
    part: list[Sourced] = []
    for of_run in runs.values():
        for start in range(0, len(of_run), most):
            chunk = of_run[start : start + most]
            if part and len(part) + len(chunk) > most:
                yield part
                part = []
            part += chunk
    if part:
        yield part
