"""Fixtures for functions/model_metrics: each test has a database of its own, of both kinds."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgresql import PostgreSQL, postgresql, programs

from headrace.functions.database.engine import open_engine
from headrace.functions.database.migrate import migrate
from headrace.functions.model_metrics.store.tables import STEPS


@pytest.fixture(scope="session")
def server() -> Iterator[PostgreSQL]:
    """One for the run. Skips loudly where there is none."""
    if (where := programs()) is None:
        pytest.skip("NO POSTGRESQL HERE: apt-get install postgresql; what needs it was not tested")
    with postgresql(where) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'model-metrics.sqlite'}"
    running: PostgreSQL = request.getfixturevalue("server")
    return running.create_database(f"test_{uuid.uuid4().hex}")


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    """Of a database with today's tables."""
    opened = open_engine(url)
    migrate(opened, STEPS)
    yield opened
    opened.dispose()
