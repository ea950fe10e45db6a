"""A replica that dies in a Spark job: what it left running is over before another one repeats its batch."""

import random
from pathlib import Path

import pytest
from broker import Broker
from scenario import Report
from spark import SharedSpark
from spark_kills import replica_killed


@pytest.mark.full
def test_what_the_storm_says(broker: Broker, spark: SharedSpark, tmp_path: Path) -> None:
    report = Report()
    random.seed(0)
    replica_killed(spark, broker, tmp_path, 0, report)
    assert report.show("replica")
