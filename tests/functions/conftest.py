"""Fixtures for the ready-made functions."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import Databases, PostgreSQL, postgresql, programs
from pyspark.sql import SparkSession
from servers import shared
from spark import SharedSpark, end_session

from headrace.runtime.worker.api.spark import WorkerSpark

_NO_POSTGRESQL = "no PostgreSQL: apt-get install postgresql"


@pytest.fixture(scope="module")
def session(spark: SharedSpark) -> Iterator[SparkSession]:
    """Spark session as a worker has it."""
    environment = dict(os.environ)
    worker = WorkerSpark(spark.link.session_url, str(uuid.uuid4()), {}, __name__, lambda _: None)
    yield worker.session
    end_session(worker.session)
    os.environ.clear()
    os.environ.update(environment)


@pytest.fixture(scope="session")
def databases() -> Databases:
    """Of PostgreSQL."""
    found: Databases | None = shared("postgresql")
    if found is None:
        pytest.skip(_NO_POSTGRESQL)
    return found


@pytest.fixture
def own_server() -> Iterator[PostgreSQL]:
    """For a test that stops it."""
    if (where := programs()) is None:
        pytest.skip(_NO_POSTGRESQL)
    with postgresql(where) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    return _empty(request, tmp_path)


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.full), "postgresql"])
def run_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same for whole runs, which take seconds each."""
    return _empty(request, tmp_path)


def _empty(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'own.sqlite'}"
    found: Databases = request.getfixturevalue("databases")
    return found.create()
