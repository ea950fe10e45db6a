"""Fixtures for the ready-made functions."""

import os
import uuid
from collections.abc import Iterator

import pytest
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
