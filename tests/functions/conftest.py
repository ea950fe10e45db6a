"""Fixtures for the ready-made functions."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import PostgreSQL, postgresql, programs
from pyspark.sql import SparkSession
from spark import TestSpark

from headrace.runtime.worker.spark import WorkerSpark


@pytest.fixture(scope="module")
def session(spark: TestSpark) -> Iterator[SparkSession]:
    """As a worker has it."""
    environment = dict(os.environ)
    worker = WorkerSpark(spark.link.session_url, str(uuid.uuid4()), {}, __name__, lambda _: None)
    yield worker.session
    worker.session.client.close()
    os.environ.clear()
    os.environ.update(environment)


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
        return f"sqlite:///{tmp_path / 'own.sqlite'}"
    running: PostgreSQL = request.getfixturevalue("server")
    return running.create_database()
