"""Bounded reads: they end in time, and whatever uses the connection afterwards has all of its own."""

import pytest
import sqlalchemy as sa

from headrace.functions.database.engine import TooLongError, bounded_read
from headrace.functions.run_tracking.store import tables as t

COUNTING = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {}) SELECT count(*) FROM n"
)


def test_a_query_that_goes_on_is_ended(engine: sa.Engine) -> None:
    says = r"^that takes longer than 0.05 s to read: ask for less$"
    with pytest.raises(TooLongError, match=says), bounded_read(engine, 0.05) as now:
        now.rows(sa.text(COUNTING.format(10**12)))
    with engine.begin() as connection:
        connection.execute(sa.insert(t.TAGS).values(id="i", name="n"))
        assert connection.execute(sa.text(COUNTING.format(300_000))).scalar_one() == 300_000


def test_queries_have_their_time_together(engine: sa.Engine) -> None:
    with bounded_read(engine, 60) as now:
        assert [row["n"] for row in now.rows(sa.select(sa.literal(1).label("n")))] == [1]
    with bounded_read(engine, -1) as late, pytest.raises(TooLongError):
        late.rows(sa.select(sa.literal(1)))


def test_what_is_wrong_otherwise_is_said_as_it_is(engine: sa.Engine) -> None:
    with pytest.raises(sa.exc.DBAPIError), bounded_read(engine) as now:
        now.rows(sa.text("SELECT no_such FROM nowhere"))
