"""A metric's steps, no more of them than somebody can look at."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.engine import BoundedRead, bounded_read
from headrace.functions.run_tracking.store.tables import SEQUENCES, context_id

MOST_POINTS = 1_000_000
"""Of one answer."""


class TooManyPointsError(Exception):
    """More than one answer may have."""

    def __init__(self) -> None:
        super().__init__(f"that is more than {MOST_POINTS} points: ask for fewer at once")


@dataclass(frozen=True, slots=True)
class StepRange:
    """From `start` on, up to `stop`, which is not included; None is open. At most `density` of them, >= 2."""

    density: int
    start: int | None = None
    stop: int | None = None


class CurveReader:
    """Reads one database. Blocks, and raises SQLAlchemy's errors."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def read(
        self, run_id: str, asked: Iterable[tuple[str, Mapping[str, Any]]], wanted: StepRange
    ) -> Iterator[dict[str, Any]]:
        """One after another. `asked` are names and contexts. Raises TooManyPointsError, and TooLongError."""
        points = 0
        with bounded_read(self._engine) as now:
            for trace in asked:
                curve = _curve(now, run_id, trace, wanted, MOST_POINTS - points)
                points += len(curve["iters"])
                yield curve


def _curve(
    now: BoundedRead, run_id: str, trace: tuple[str, Mapping[str, Any]], wanted: StepRange, room: int
) -> dict[str, Any]:
    """`iters` and `values`, equally long, spread evenly, with the first and the last; or empty."""
    s, (name, context) = SEQUENCES.c, trace
    is_its = (s.run_id == run_id) & (s.context_id == context_id(context)) & (s.name == name)
    if wanted.start is not None:
        is_its &= s.step >= wanted.start
    if wanted.stop is not None:
        is_its &= s.step < wanted.stop
    (counted,) = now.rows(sa.select(sa.func.count().label("steps")).where(is_its))
    if min(counted["steps"], wanted.density) > room:
        raise TooManyPointsError
    rows = now.rows(_thinned(is_its, counted["steps"], wanted.density))
    return {
        "name": name,
        "context": context,
        "iters": [row["step"] for row in rows],
        "values": [row["value"] for row in rows],
    }


def _thinned(is_its: sa.ColumnElement[bool], count: int, most: int) -> Any:
    s = SEQUENCES.c
    if count <= most:
        return sa.select(s.step, s.value).where(is_its).order_by(s.step)
    place = (sa.func.row_number().over(order_by=s.step) - 1).label("place")
    numbered = sa.select(s.step, s.value, place).where(is_its).subquery()
    # Places fall into `most` parts of the same length: the first of each, and the last place alone.
    share, before = (_share(numbered.c.place - back, count, most) for back in (0, 1))
    is_first = (numbered.c.place == 0) | (share > before)
    return sa.select(numbered.c.step, numbered.c.value).where(is_first).order_by(numbered.c.step)


def _share(place: Any, count: int, most: int) -> Any:
    return (place * (most - 1)) // (count - 1)
