"""Reader of metrics' curves, thinned out to as many points as a plot can show."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.engine import BoundedRead, bounded_read
from headrace.functions.run_tracking.store.tables import SEQUENCES, context_id

MOST_POINTS = 1_000_000
"""Most points of one response."""


class TooManyPointsError(Exception):
    """More points were asked for than one response may have."""

    def __init__(self) -> None:
        super().__init__(f"that is more than {MOST_POINTS} points: ask for fewer at once")


@dataclass(frozen=True, slots=True)
class StepRange:
    """Steps to read, `start` to `stop` (excluded; None is open), thinned to `density`, 2 or more."""

    density: int
    start: int | None = None
    stop: int | None = None


class CurveReader:
    """Reads curves from one database. Blocks, and raises SQLAlchemy's errors."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def read(
        self, run_id: str, traces: Iterable[tuple[str, Mapping[str, Any]]], steps: StepRange
    ) -> Iterator[dict[str, Any]]:
        """Yield the curve of each (name, context), one after another.

        A curve is a dict of `name`, `context`, `iters` (steps) and `values`, the last two equally long.
        Raises TooManyPointsError, TooLongError.
        """
        points = 0
        # One transaction, so that all curves share one limit of time.
        with bounded_read(self._engine) as transaction:
            for trace in traces:
                curve = _curve(transaction, run_id, trace, steps, MOST_POINTS - points)
                points += len(curve["iters"])
                yield curve


def _curve(
    transaction: BoundedRead,
    run_id: str,
    trace: tuple[str, Mapping[str, Any]],
    steps: StepRange,
    remaining: int,
) -> dict[str, Any]:
    """Return one curve, its points spread evenly, the first and the last among them."""
    s, (name, context) = SEQUENCES.c, trace
    is_its = (s.run_id == run_id) & (s.context_id == context_id(context)) & (s.name == name)
    if steps.start is not None:
        is_its &= s.step >= steps.start
    if steps.stop is not None:
        is_its &= s.step < steps.stop
    (counted,) = transaction.rows(sa.select(sa.func.count().label("steps")).where(is_its))
    # Checked before the points are read.
    if min(counted["steps"], steps.density) > remaining:
        raise TooManyPointsError
    rows = transaction.rows(_thinned(is_its, counted["steps"], steps.density))
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
    # Places are split into `most` parts of equal length: the first of each is taken, and the last place.
    share, before = (_share(numbered.c.place - back, count, most) for back in (0, 1))
    is_first = (numbered.c.place == 0) | (share > before)
    return sa.select(numbered.c.step, numbered.c.value).where(is_first).order_by(numbered.c.step)


def _share(place: Any, count: int, most: int) -> Any:
    # Never a division by 0: this is reached with count > most only, and most is 2 or more.
    return (place * (most - 1)) // (count - 1)
