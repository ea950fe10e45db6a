"""What requests change in the database. A transaction for each call."""

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from headrace.functions.run_tracking.store import tables as t
from headrace.functions.run_tracking.store.deleting import delete_run
from headrace.functions.run_tracking.store.identities import id_of_name
from headrace.functions.run_tracking.store.upserts import Upsert, Upserts

_NAMES = {table: Upsert(table) for table in (t.EXPERIMENTS, t.TAGS)}
_RUN_TAGS = Upsert(t.RUN_TAGS)
_COLUMNS = {"name": "name", "description": "description", "archived": "is_archived"}


class Changes:
    """Blocks, and raises SQLAlchemy's errors: nothing of the call is there then."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._upserts = Upserts(engine.dialect.name)

    def delete_runs(self, run_ids: Iterable[str]) -> None:
        """With all that is theirs; what comes later of them has no effect."""
        with self._engine.begin() as connection:
            for run_id in sorted(set(run_ids)):  # in order, for two may delete at once
                delete_run(connection, self._upserts, run_id)

    def clear_tombstone(self, run_id: str) -> None:
        """So that the run may come again."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(t.TOMBSTONES).where(t.TOMBSTONES.c.run_id == run_id))

    def archive_runs(self, run_ids: Iterable[str], *, archived: bool) -> None:
        """Or take them back."""
        with self._engine.begin() as connection:
            for run_id in sorted(set(run_ids)):
                of_it = sa.update(t.RUNS).where(t.RUNS.c.id == run_id)
                connection.execute(of_it.values(is_archived=archived))

    def update_run(self, run_id: str, changes: Mapping[str, Any]) -> None:
        """`changes` may have name, description, archived, experiment: a name, or empty for none."""
        values = {_COLUMNS[name]: value for name, value in changes.items() if name in _COLUMNS}
        with self._engine.begin() as connection:
            if (experiment := changes.get("experiment")) is not None:
                values["experiment_id"] = self._keep(connection, t.EXPERIMENTS, experiment)
            if values:
                connection.execute(sa.update(t.RUNS).where(t.RUNS.c.id == run_id).values(**values))

    def create(self, table: sa.Table, name: str) -> str | None:
        """An experiment, or a tag, that may be there already; its id."""
        with self._engine.begin() as connection:
            return self._keep(connection, table, name)

    def add_tag(self, run_id: str, name: str) -> str | None:
        """The tag's id; None where no run is, or none any more."""
        with self._engine.begin() as connection:
            run = sa.select(t.RUNS.c.id).where(t.RUNS.c.id == run_id).with_for_update(read=True)
            if connection.execute(run).first() is None:
                return None
            tag_id = self._keep(connection, t.TAGS, name)
            self._upserts.write(connection, _RUN_TAGS, [(run_id, tag_id)])
            return tag_id

    def remove_tag(self, run_id: str, tag_id: str) -> bool:
        """Whether the run had it."""
        r = t.RUN_TAGS.c
        with self._engine.begin() as connection:
            gone = connection.execute(sa.delete(t.RUN_TAGS).where(r.run_id == run_id, r.tag_id == tag_id))
            return gone.rowcount > 0

    def delete_experiment(self, key: str) -> None:
        """Its runs stay, and have none then."""
        with self._engine.begin() as connection:
            of_it = sa.update(t.RUNS).where(t.RUNS.c.experiment_id == key)
            connection.execute(of_it.values(experiment_id=None))
            connection.execute(sa.delete(t.EXPERIMENTS).where(t.EXPERIMENTS.c.id == key))

    def delete_tag(self, key: str) -> None:
        """And take it off all runs."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(t.RUN_TAGS).where(t.RUN_TAGS.c.tag_id == key))
            connection.execute(sa.delete(t.TAGS).where(t.TAGS.c.id == key))

    def _keep(self, connection: sa.Connection, table: sa.Table, name: str) -> str | None:
        if not name:
            return None
        key = id_of_name(name)
        self._upserts.write(connection, _NAMES[table], [(key, name)])
        return key
