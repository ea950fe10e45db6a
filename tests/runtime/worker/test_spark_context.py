"""context.spark in running functions: used, killed in the middle, and with its server killed under it."""

import asyncio
import atexit
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from broker import Broker
from kafka_records import group_offsets, handled, produce
from processes import is_running, java_children
from replica import Replica, lines, replica, wait_until, write_function
from spark import (
    COUNTS,
    QUICK,
    OwnSpark,
    SharedSpark,
    is_closed,
    running_spark,
    use_spark,
    write_spark_function,
)

from headrace.runtime.spark import sessions as spark_sessions
from headrace.runtime.worker.api.spark import WorkerSpark

USES = """
    from pyspark.sql import SparkSession, functions as F

    def double(n: int) -> int:
        return 2 * n

    def handler(context, event):
        spark = context.spark
        assert spark is context.spark is SparkSession.builder.getOrCreate()
        doubled = F.udf(double, "long")
        write(spark.range(4).select(F.sum(doubled("id"))).first()[0])
        records = spark.read.format("kafka").option("kafka.bootstrap.servers", BROKERS)
        write(records.option("subscribe", event.topic).load().count())
        spark.stop()
        write(spark.range(3).count())
"""

NO_SPARK = """
    def handler(context, event):
        try:
            context.spark
        except AttributeError as error:
            write(error)
        write([name for name in ("pyspark", "grpc", "pandas", "py4j") if name in sys.modules])
"""

BURNS = """
    def handler(context, event):
        if exists("session"):
            return write("again")
        spark = context.spark
        spark.range(1).count()
        write(spark.session_id, "session")
        spark.range(10**13).selectExpr("max(hash(id))").collect()
"""

NAMES_SESSION = """
    from headrace.runtime.worker.api import spark as spark_session

    spark_session._IDLE_SECONDS = 0

    def handler(context, event):
        context.spark.range(1).count()
        write(context.spark.session_id)
"""


ZONES = """
    from datetime import UTC

    def handler(context, event):
        rows = context.spark.createDataFrame([(0, event.timestamp)], "n INT, at TIMESTAMP_LTZ")
        written = rows.selectExpr("unix_millis(at)").first()[0]
        write(written - round(event.timestamp.replace(tzinfo=UTC).timestamp() * 1000), "shift")
"""


def loaded_of_spark(running: Replica) -> list[str]:
    """Parts of Spark's client that one of its processes has loaded. Into a processor only root can look."""
    looked_into = [*running.worker_pids(), *([] if os.getuid() else [running.process.pid])]
    maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in looked_into)
    return [name for name in ("cygrpc", "pyarrow", "libjvm") if name in maps]


def test_a_handler_uses_spark_its_own_functions_and_the_kafka_source_in_it(
    broker: Broker, topic: str, spark: SharedSpark, tmp_path: Path
) -> None:
    handler = USES.replace("BROKERS", repr(broker.bootstrap))
    folder = write_spark_function(tmp_path / "f", handler, broker, topic, spark)
    produce(broker, topic, 5, partitions=1)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 15, about=running)
        running.logged("spark.stop() does nothing here")
        assert spark.link.token not in running.log
        assert "FutureWarning" not in running.log  # PySpark's about pandas 3, beside a record
    assert lines(folder) == ["12", "5", "3"] * 5


def test_times_of_events_are_not_shifted_by_the_zone_of_the_machine(
    broker: Broker, topic: str, spark: SharedSpark, tmp_path: Path
) -> None:
    folder = write_spark_function(tmp_path / "f", ZONES, broker, topic, spark)
    produce(broker, topic, 1)
    with replica(folder, variables={"TZ": "Asia/Tokyo"}) as running:
        wait_until(lambda: lines(folder, "shift"), about=running)
    assert lines(folder, "shift") == ["0"]


def test_without_spec_spark_no_process_loads_it_and_context_spark_says_what_to_write(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", NO_SPARK, broker.bootstrap, [topic], workers=1)
    produce(broker, topic, 1)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 2, about=running)
        loaded = loaded_of_spark(running)
        assert java_children(running.process.pid) == []
    assert lines(folder) == [
        "context.spark needs spec.spark in function.yaml; write spark: {} below spec",
        "[]",
    ]
    assert loaded == []


def test_a_session_leaves_nothing_to_do_at_the_end_of_its_process(
    spark: SharedSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PySpark asks the server something there, for ten minutes if that is gone by then.
    hooks: dict[Callable[..., object], None] = {}
    monkeypatch.setattr(atexit, "register", hooks.setdefault)
    monkeypatch.setattr(atexit, "unregister", lambda hook: hooks.pop(hook, None))
    monkeypatch.setattr(os, "environ", {**os.environ})
    session = WorkerSpark(spark.link.session_url, str(uuid.uuid4()), {}, __name__, lambda _: None).session
    assert [hook for hook in hooks if getattr(hook, "__self__", None) is session.client] == []
    type(session).stop(session)


@pytest.fixture(scope="module")
def own_spark() -> Iterator[OwnSpark]:
    """Whose processor time is nobody else's, and which may be killed."""
    with running_spark() as running:
        yield running


@pytest.mark.full
@pytest.mark.spark
def test_the_job_of_a_killed_worker_ends_with_it(
    broker: Broker, topic: str, own_spark: OwnSpark, tmp_path: Path
) -> None:
    spark = own_spark
    folder = write_spark_function(tmp_path / "f", BURNS, broker, topic, spark)
    produce(broker, topic, 1, partitions=1)
    with replica(folder) as running:
        wait_until(lambda: lines(folder, "session"), about=running)
        (session_id,) = lines(folder, "session")
        before = spark.cpu_seconds()
        wait_until(lambda: spark.cpu_seconds() - before > 1, about=running)  # it burns
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        wait_until(lambda: is_closed(spark.link.session_url, session_id), about=running)
        before = spark.cpu_seconds()
        time.sleep(5)  # not for order: it is what is measured
        assert spark.cpu_seconds() - before < 1
        wait_until(lambda: lines(folder) == ["again"], about=running)


def test_a_session_that_is_closed_while_idle_is_replaced_and_the_new_one_ends_with_the_worker(
    broker: Broker, topic: str, spark: SharedSpark, tmp_path: Path
) -> None:
    folder, url = (
        write_spark_function(tmp_path / "f", NAMES_SESSION, broker, topic, spark),
        spark.link.session_url,
    )
    with replica(folder) as running:
        produce(broker, topic, 1, partitions=1)
        wait_until(lambda: len(lines(folder)) == 1, about=running)
        asyncio.run(spark_sessions.interrupt(url, lines(folder)[0]))
        produce(broker, topic, 1, partitions=1)
        wait_until(lambda: len(lines(folder)) == 2, about=running)
        first, second = lines(folder)
        assert first != second
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        wait_until(lambda: is_closed(url, second), about=running)


@pytest.mark.full
@pytest.mark.spark
def test_a_spark_that_is_killed_comes_back_with_new_sessions_and_no_record_is_lost(
    broker: Broker, topic: str, own_spark: OwnSpark, tmp_path: Path
) -> None:
    spark = own_spark
    folder = write_function(tmp_path / "f", COUNTS, broker.bootstrap, [topic], workers=1)
    use_spark(folder, {})
    link, victim = spark.link, spark.pid
    with replica(folder, spark=link) as running:
        produce(broker, topic, 24)
        wait_until(lambda: len(lines(folder)) > 5, about=running)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: sum(map(len, map(set, handled(folder).values()))) == 24, about=running)
        assert spark.link.url == link.url
        assert spark.link.token not in {link.token, ""}
        assert spark.pid != victim
        assert spark.restarts
        assert running.stop() == 0
        assert "the Spark server was started again: a new session" in running.log
    assert group_offsets(broker, f"group-{topic}") == {(topic, partition): 3 for partition in range(8)}


@pytest.mark.spark
def test_all_replicas_share_one_server_that_dies_with_the_supervisor(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "x")
    folder = write_function(tmp_path / "f", COUNTS, broker.bootstrap, [topic], workers=1)
    use_spark(folder, QUICK)
    produce(broker, topic, 8)
    with replica(folder, "--replicas", "2") as running:
        wait_until(lambda: sum(map(len, handled(folder).values())) == 8, about=running)
        (server,) = java_children(running.process.pid)
        assert b"SECRET_KEY" not in Path(f"/proc/{server}/environ").read_bytes()
        assert {len(trigger["partitions"]) for trigger in running.triggers()} == {4}
        environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in running.worker_pids()]
        assert not any(b"HEADRACE_SPARK" in environment for environment in environments)
        running.process.kill()
        wait_until(lambda: not is_running(server))
