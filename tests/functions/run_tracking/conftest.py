"""Fixtures for functions/run_tracking: the tables of a test's own database."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from headrace.functions.database.engine import open_engine
from headrace.functions.database.schema import migrate
from headrace.functions.run_tracking.store.tables import MIGRATIONS


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    """Engine of a database with today's tables."""
    opened = open_engine(url)
    migrate(opened, MIGRATIONS)
    yield opened
    opened.dispose()
