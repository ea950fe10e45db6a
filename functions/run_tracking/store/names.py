"""What the API says of experiments and tags, and of all together."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.reading import bounded_read
from headrace.functions.run_tracking.store import tables as t


class NameReader:
    """Reads one database. Blocks, and raises SQLAlchemy's errors, and TooLongError."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def check(self) -> None:
        """Nothing, where the database answers."""
        self._rows(sa.select(sa.literal(1)))

    def experiments(self, limit: int) -> list[dict[str, Any]]:
        """The first by name."""
        runs = sa.select(sa.func.count()).where(t.RUNS.c.experiment_id == t.EXPERIMENTS.c.id)
        more = {"description": None, "archived": False}
        return [{**row, **more} for row in self._named(t.EXPERIMENTS, runs, limit)]

    def tags(self, limit: int) -> list[dict[str, Any]]:
        """The first by name."""
        runs = sa.select(sa.func.count()).where(t.RUN_TAGS.c.tag_id == t.TAGS.c.id)
        more = {"color": None, "description": None, "archived": False}
        return [{**row, **more} for row in self._named(t.TAGS, runs, limit)]

    def is_there(self, table: sa.Table, key: str) -> bool:
        """Whether EXPERIMENTS, or TAGS, has that id."""
        return bool(self._rows(sa.select(table.c.id).where(table.c.id == key)))

    def counts(self) -> dict[str, int]:
        """How many there are of what."""
        r, count = t.RUNS.c, sa.func.count
        counted = {
            "runs": sa.select(count()).select_from(t.RUNS),
            "active_runs": sa.select(count()).select_from(t.RUNS).where(r.is_active.is_(sa.true())),
            "archived_runs": sa.select(count()).select_from(t.RUNS).where(r.is_archived.is_(sa.true())),
            "experiments": sa.select(count()).select_from(t.EXPERIMENTS),
            "tags": sa.select(count()).select_from(t.TAGS),
        }
        query = sa.select(*(query.scalar_subquery().label(name) for name, query in counted.items()))
        return dict(self._rows(query)[0])

    def _named(self, table: sa.Table, runs: Any, limit: int) -> Sequence[sa.RowMapping]:
        counted = runs.correlate(table).scalar_subquery().label("run_count")
        return self._rows(sa.select(table.c.id, table.c.name, counted).order_by(table.c.name).limit(limit))

    def _rows(self, query: Any) -> Sequence[sa.RowMapping]:
        with bounded_read(self._engine) as now:
            return now.rows(query)
