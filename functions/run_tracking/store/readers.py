"""Readers of runs, experiments and tags for the API: JSON as dicts and lists, times as Unix seconds."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from headrace.functions.database.engine import bounded_read
from headrace.functions.run_tracking.store import tables as t

_BUCKETS = {
    "image": "images",
    "text": "texts",
    "distribution": "distributions",
    "audio": "audios",
    "figure": "figures",
}
# Logs are no metrics: requests of their own read them.
_HIDDEN = ("logs", "log_records")
_MOST_LETTERS = 8_000_000  # most characters of the lines in one response


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Conditions of a list of runs; None is no condition. `experiment` is a name."""

    experiment: str | None = None
    archived: bool | None = None
    active: bool | None = None


class RunReader:
    """Reads runs from one database. Blocks; raises SQLAlchemy's errors and TooLongError."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def runs(self, conditions: RunFilter, limit: int) -> list[dict[str, Any]]:
        """Return the newest runs that match, at most `limit`."""
        r, e = t.RUNS.c, t.EXPERIMENTS.c
        query = sa.select(t.RUNS, e.name.label("experiment")).join(
            t.EXPERIMENTS, e.id == r.experiment_id, isouter=True
        )
        for column, value in ((e.name, conditions.experiment), (r.is_archived, conditions.archived)):
            query = query if value is None else query.where(column == value)
        query = query if conditions.active is None else query.where(r.is_active == conditions.active)
        # By id as well: runs of the same time could be in another order at each read.
        rows = self._rows(query.order_by(r.created_at.desc(), r.id.desc()).limit(limit))
        tags = self._tags(row["id"] for row in rows)
        return [_listed(row, [tag["name"] for tag in tags[row["id"]]]) for row in rows]

    def existing(self, ids: Iterable[str]) -> list[str]:
        """Return those of `ids` that are runs, in their order, without duplicates."""
        unique_ids = list(dict.fromkeys(ids))
        found = {row["id"] for row in self._rows(sa.select(t.RUNS.c.id).where(t.RUNS.c.id.in_(unique_ids)))}
        return [run_id for run_id in unique_ids if run_id in found]

    def info(self, run_id: str) -> dict[str, Any] | None:
        """Return a run as Matyan's client expects it; None if it doesn't exist."""
        e = t.EXPERIMENTS.c
        query = (
            sa.select(t.RUNS, e.name.label("experiment"))
            .join(t.EXPERIMENTS, e.id == t.RUNS.c.experiment_id, isouter=True)
            .where(t.RUNS.c.id == run_id)
        )
        if not (rows := self._rows(query)):
            return None
        # Each query is a transaction of its own: parts may differ by what comes in between.
        attrs = self._rows(sa.select(t.RUN_ATTRS.c.attrs).where(t.RUN_ATTRS.c.run_id == run_id))
        return {
            "params": json.loads(attrs[0]["attrs"]) if attrs else {},
            "traces": self._traces(run_id),
            "props": _props(rows[0], self._tags([run_id])[run_id]),
            "artifacts": self._artifacts(run_id),
        }

    def blob(self, run_id: str, path: str) -> sa.RowMapping | None:
        """Return `content_type` and `blob_key` of an artifact, as its client gave them, or None."""
        b = t.BLOBS.c
        query = sa.select(b.content_type, b.blob_key).where(b.run_id == run_id, b.artifact_path == path)
        return next(iter(self._rows(query)), None)

    def last_lines(self, run_id: str, limit: int) -> list[dict[str, Any]]:
        """Return the last lines of the terminal: `step` and `line`, in order."""
        rows = self._tail(t.TERMINAL_LINES, "line", run_id, limit)
        return [{"step": row["step"], "line": row["line"]} for row in rows]

    def last_records(self, run_id: str, limit: int) -> list[dict[str, Any]]:
        """Return the last records of the log: `step` and the record's fields, in order."""
        rows = self._tail(t.LOG_RECORDS, "record", run_id, limit)
        return [{**json.loads(row["record"]), "step": row["step"]} for row in rows]

    def _traces(self, run_id: str) -> dict[str, list[dict[str, Any]]]:
        r, c = t.TRACES.c, t.CONTEXTS.c
        is_its = (c.run_id == r.run_id) & (c.context_id == r.context_id)
        query = (
            sa.select(r.name, r.dtype, r.last, c.context)
            # Outer: the empty context has no row.
            .join(t.CONTEXTS, is_its, isouter=True)
            .where(r.run_id == run_id, r.dtype.not_in(_HIDDEN))
            .order_by(r.name, r.context_id)
        )
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in ("metric", *_BUCKETS.values())}
        for row in self._rows(query):
            bucket = _BUCKETS.get(row["dtype"], "metric")  # metrics have the name of a Python number type
            last = {"last_value": row["last"]} if bucket == "metric" else {}
            found[bucket].append({"name": row["name"], "context": json.loads(row["context"] or "{}"), **last})
        return found

    def _tags(self, ids: Iterable[str]) -> Mapping[str, list[dict[str, Any]]]:
        query = (
            sa.select(t.RUN_TAGS.c.run_id, t.TAGS.c.id, t.TAGS.c.name)
            .join(t.TAGS, t.TAGS.c.id == t.RUN_TAGS.c.tag_id)
            .where(t.RUN_TAGS.c.run_id.in_(list(ids)))
            .order_by(t.TAGS.c.name)
        )
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in self._rows(query):
            # Color and description are never set here; Matyan's client expects them.
            about = {"id": row["id"], "name": row["name"], "color": None, "description": None}
            found[row["run_id"]].append(about)
        return found

    def _artifacts(self, run_id: str) -> list[dict[str, str]]:
        path = t.BLOBS.c.artifact_path
        rows = self._rows(sa.select(path).where(t.BLOBS.c.run_id == run_id).order_by(path))
        download = f"/api/v1/rest/runs/{run_id}/artifacts/download/?path="
        return [
            {"name": p.rpartition("/")[2], "path": p, "uri": download + quote(p, safe="")}
            for p in (row["artifact_path"] for row in rows)
        ]

    def _tail(self, table: sa.Table, text: str, run_id: str, limit: int) -> Sequence[sa.RowMapping]:
        """Return the last `limit` rows; fewer, but at least one, if they are over _MOST_LETTERS together."""
        query = sa.select(table).where(table.c.run_id == run_id).order_by(table.c.step.desc()).limit(limit)
        # Lines may be long: their total length is summed up from the newest on, in the database.
        last = query.subquery()
        letters = sa.func.length(last.c[text])
        # Without the row's own letters, so that the newest row comes however long it is.
        behind = sa.func.sum(letters).over(order_by=last.c.step.desc()) - letters
        counted = sa.select(last, behind.label("behind")).subquery()
        few = sa.select(counted).where(counted.c.behind < _MOST_LETTERS)
        return self._rows(few.order_by(counted.c.step))

    def _rows(self, query: Any) -> Sequence[sa.RowMapping]:
        with bounded_read(self._engine) as transaction:
            return transaction.rows(query)


def _listed(row: sa.RowMapping, tags: Sequence[str]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "name": row["name"],
        "experiment": row["experiment"],
        "tags": tags,
        "creation_time": _seconds(row["created_at"]),
        "end_time": _seconds(row["finalized_at"]),
        "duration": row["duration_seconds"],
        "archived": row["is_archived"],
        "active": row["is_active"],
    }


def _props(row: sa.RowMapping, tags: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    experiment = None
    if row["experiment"] is not None:
        experiment = {"id": row["experiment_id"], "name": row["experiment"], "description": None}
    return {
        "name": row["name"],
        "description": row["description"],
        "experiment": experiment,
        "tags": tags,
        "creation_time": _seconds(row["created_at"]),
        "end_time": _seconds(row["finalized_at"]),
        "archived": row["is_archived"],
        "active": row["is_active"],
    }


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


class NameReader:
    """Reads experiments, tags and totals. Blocks; raises SQLAlchemy's errors and TooLongError."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def check(self) -> None:
        """Raise unless the database answers."""
        self._rows(sa.select(sa.literal(1)))

    def experiments(self, limit: int) -> list[dict[str, Any]]:
        """Return the first `limit` experiments by name, with the number of their runs."""
        runs = sa.select(sa.func.count()).where(t.RUNS.c.experiment_id == t.EXPERIMENTS.c.id)
        more = {"description": None, "archived": False}
        return [{**row, **more} for row in self._named(t.EXPERIMENTS, runs, limit)]

    def tags(self, limit: int) -> list[dict[str, Any]]:
        """Return the first `limit` tags by name, with the number of their runs."""
        runs = sa.select(sa.func.count()).where(t.RUN_TAGS.c.tag_id == t.TAGS.c.id)
        more = {"color": None, "description": None, "archived": False}
        return [{**row, **more} for row in self._named(t.TAGS, runs, limit)]

    def exists(self, table: sa.Table, key: str) -> bool:
        """Whether EXPERIMENTS, or TAGS, has that id."""
        return bool(self._rows(sa.select(table.c.id).where(table.c.id == key)))

    def counts(self) -> dict[str, int]:
        """Return the number of runs, active runs, archived runs, experiments and tags."""
        r, count = t.RUNS.c, sa.func.count
        counted = {
            "runs": sa.select(count()).select_from(t.RUNS),
            "active_runs": sa.select(count()).select_from(t.RUNS).where(r.is_active.is_(sa.true())),
            "archived_runs": sa.select(count()).select_from(t.RUNS).where(r.is_archived.is_(sa.true())),
            "experiments": sa.select(count()).select_from(t.EXPERIMENTS),
            "tags": sa.select(count()).select_from(t.TAGS),
        }
        # One statement, so that all numbers are of the same moment.
        query = sa.select(*(query.scalar_subquery().label(name) for name, query in counted.items()))
        return dict(self._rows(query)[0])

    def _named(self, table: sa.Table, runs: Any, limit: int) -> Sequence[sa.RowMapping]:
        counted = runs.correlate(table).scalar_subquery().label("run_count")
        return self._rows(sa.select(table.c.id, table.c.name, counted).order_by(table.c.name).limit(limit))

    def _rows(self, query: Any) -> Sequence[sa.RowMapping]:
        with bounded_read(self._engine) as transaction:
            return transaction.rows(query)
