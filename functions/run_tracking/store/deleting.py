"""A run that goes, whoever asks for it."""

from datetime import UTC, datetime

import sqlalchemy as sa

from headrace.functions.run_tracking.store.tables import OF_RUNS, RUNS, TOMBSTONES
from headrace.functions.run_tracking.store.upserts import Upsert, Upserts

_TOMBSTONES = Upsert(TOMBSTONES)


def delete_run(connection: sa.Connection, upserts: Upserts, run_id: str) -> None:
    """All of it, and what comes later of it has no effect.

    The run goes before what hangs on it: who adds to it at the same time holds its row, and is waited for.
    """
    upserts.write(connection, _TOMBSTONES, [(run_id, datetime.now(UTC))])
    connection.execute(sa.delete(RUNS).where(RUNS.c.id == run_id))
    for table in OF_RUNS:
        connection.execute(sa.delete(table).where(table.c.run_id == run_id))
