"""What the API says of runs. JSON as dicts and lists; times as seconds since the epoch."""

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


_HIDDEN = ("logs", "log_records")


_MOST_LETTERS = 8_000_000  # of one answer's lines


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are listed; None is all. `experiment` is a name."""

    experiment: str | None = None
    archived: bool | None = None
    active: bool | None = None


class RunReader:
    """Reads one database. Blocks, and raises SQLAlchemy's errors, and TooLongError."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def runs(self, wanted: RunFilter, limit: int) -> list[dict[str, Any]]:
        """The newest first."""
        r, e = t.RUNS.c, t.EXPERIMENTS.c
        query = sa.select(t.RUNS, e.name.label("experiment")).join(
            t.EXPERIMENTS, e.id == r.experiment_id, isouter=True
        )
        for column, value in ((e.name, wanted.experiment), (r.is_archived, wanted.archived)):
            query = query if value is None else query.where(column == value)
        query = query if wanted.active is None else query.where(r.is_active == wanted.active)
        rows = self._rows(query.order_by(r.created_at.desc(), r.id.desc()).limit(limit))
        tags = self._tags(row["id"] for row in rows)
        return [_listed(row, [tag["name"] for tag in tags[row["id"]]]) for row in rows]

    def existing(self, ids: Iterable[str]) -> list[str]:
        """Those of them that are runs, in their order."""
        given = list(dict.fromkeys(ids))
        found = {row["id"] for row in self._rows(sa.select(t.RUNS.c.id).where(t.RUNS.c.id.in_(given)))}
        return [run_id for run_id in given if run_id in found]

    def info(self, run_id: str) -> dict[str, Any] | None:
        """As Matyan's clients take it. None where no run is."""
        e = t.EXPERIMENTS.c
        query = (
            sa.select(t.RUNS, e.name.label("experiment"))
            .join(t.EXPERIMENTS, e.id == t.RUNS.c.experiment_id, isouter=True)
            .where(t.RUNS.c.id == run_id)
        )
        if not (rows := self._rows(query)):
            return None
        attrs = self._rows(sa.select(t.RUN_ATTRS.c.attrs).where(t.RUN_ATTRS.c.run_id == run_id))
        return {
            "params": json.loads(attrs[0]["attrs"]) if attrs else {},
            "traces": self._traces(run_id),
            "props": _props(rows[0], self._tags([run_id])[run_id]),
            "artifacts": self._artifacts(run_id),
        }

    def blob(self, run_id: str, path: str) -> sa.RowMapping | None:
        """`content_type` and `blob_key` of an artifact, as the client has said them."""
        b = t.BLOBS.c
        query = sa.select(b.content_type, b.blob_key).where(b.run_id == run_id, b.artifact_path == path)
        return next(iter(self._rows(query)), None)

    def last_lines(self, run_id: str, limit: int) -> list[dict[str, Any]]:
        """Of the terminal: `step` and `line`, in order."""
        rows = self._tail(t.TERMINAL_LINES, "line", run_id, limit)
        return [{"step": row["step"], "line": row["line"]} for row in rows]

    def last_records(self, run_id: str, limit: int) -> list[dict[str, Any]]:
        """Of the log: `step`, and what the record has, in order."""
        rows = self._tail(t.LOG_RECORDS, "record", run_id, limit)
        return [{**json.loads(row["record"]), "step": row["step"]} for row in rows]

    def _traces(self, run_id: str) -> dict[str, list[dict[str, Any]]]:
        r, c = t.TRACES.c, t.CONTEXTS.c
        is_its = (c.run_id == r.run_id) & (c.context_id == r.context_id)
        query = (
            sa.select(r.name, r.dtype, r.last, c.context)
            .join(t.CONTEXTS, is_its, isouter=True)
            .where(r.run_id == run_id, r.dtype.not_in(_HIDDEN))
            .order_by(r.name, r.context_id)
        )
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in ("metric", *_BUCKETS.values())}
        for row in self._rows(query):
            bucket = _BUCKETS.get(row["dtype"], "metric")  # a metric's is Python's name of its number
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
        """As many as that, or as are of so many letters together: one at least."""
        query = sa.select(table).where(table.c.run_id == run_id).order_by(table.c.step.desc()).limit(limit)
        last = query.subquery()
        letters = sa.func.length(last.c[text])
        behind = sa.func.sum(letters).over(order_by=last.c.step.desc()) - letters
        counted = sa.select(last, behind.label("behind")).subquery()
        few = sa.select(counted).where(counted.c.behind < _MOST_LETTERS)
        return self._rows(few.order_by(counted.c.step))

    def _rows(self, query: Any) -> Sequence[sa.RowMapping]:
        with bounded_read(self._engine) as now:
            return now.rows(query)


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
