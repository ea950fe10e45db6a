"""Rows of runs, put into a database as they are."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from headrace.functions.run_tracking.store import tables as t
from headrace.functions.run_tracking.store.tables import context_id, id_of_name

BEGAN = datetime(2026, 5, 17, 12, tzinfo=UTC)


class Rows:
    """Into one database, at once."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def put(self, table: sa.Table, *rows: Mapping[str, Any]) -> None:
        with self._engine.begin() as connection:
            for row in rows:
                connection.execute(sa.insert(table).values(**row))

    def all(self, table: sa.Table) -> list[dict[str, Any]]:
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(table).order_by(*table.primary_key.columns)).mappings()
            return [{str(name): value for name, value in row.items()} for row in rows]

    def experiment(self, name: str) -> str:
        self.put(t.EXPERIMENTS, {"id": id_of_name(name), "name": name})
        return id_of_name(name)

    def tag(self, name: str, *run_ids: str) -> str:
        self.put(t.TAGS, {"id": id_of_name(name), "name": name})
        self.put(t.RUN_TAGS, *({"run_id": run_id, "tag_id": id_of_name(name)} for run_id in run_ids))
        return id_of_name(name)

    def run(self, run_id: str, minute: int = 0, **more: Any) -> None:
        self.put(t.RUNS, {"id": run_id, "created_at": BEGAN + timedelta(minutes=minute), **more})

    def metric(
        self,
        run_id: str,
        name: str,
        values: Iterable[float | None],
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Steps from 0 on, a second each."""
        key = {"run_id": run_id, "context_id": context_id(context)}
        given = list(values)
        with self._engine.begin() as connection:
            has = sa.select(t.CONTEXTS).where(*(t.CONTEXTS.c[column] == key[column] for column in key))
            if connection.execute(has).first() is None:
                connection.execute(sa.insert(t.CONTEXTS).values(**key, context=json.dumps(context or {})))
            last = {"last": given[-1], "last_step": len(given) - 1}
            connection.execute(sa.insert(t.TRACES).values(**key, name=name, dtype="float", **last))
            steps = [
                {**key, "name": name, "step": step, "value": value, "time": BEGAN + timedelta(seconds=step)}
                for step, value in enumerate(given)
            ]
            connection.execute(sa.insert(t.SEQUENCES), steps)
