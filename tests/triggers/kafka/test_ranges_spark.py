"""Ranges of offsets as DataFrames, on a real Spark and a real broker."""

import asyncio
import os
import uuid
from collections.abc import Iterator

import pyspark
import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from kafka_records import produce, truncate
from spark import SharedSpark, end_session
from spark_ranges import Context, Range

from headrace.functions.events import runs_of, spans_of
from headrace.functions.spark import events_to_dataframe, parse_json, ranges_to_dataframe
from headrace.runtime.embedded.spark.jars import spark_jar_set
from headrace.runtime.spark.sessions import interrupt
from headrace.runtime.spark.versions import nearest_version
from headrace.runtime.worker.api.spark import WorkerSpark


@pytest.fixture
def context(spark: SharedSpark, broker: Broker) -> Iterator[Context]:
    """As a handler has it."""
    environment = dict(os.environ)
    worker = WorkerSpark(spark.link.session_url, str(uuid.uuid4()), {}, __name__, lambda _: None)
    yield Context(worker.session, {"kafka.bootstrap.servers": broker.bootstrap})
    end_session(worker.session)
    os.environ.clear()
    os.environ.update(environment)


def test_ranges_are_read_exactly_also_several_of_one_partition(
    context: Context, broker: Broker, topic: str
) -> None:
    produce(broker, topic, 160)
    ranges = [Range(topic, 0, 2, 4), Range(topic, 0, 10, 11), Range(topic, 3, 0, 19)]
    found = ranges_to_dataframe(context, ranges).select("partition", "offset").collect()
    expected = [(0, 2), (0, 3), (0, 4), (0, 10), (0, 11), *((3, offset) for offset in range(20))]
    assert sorted(map(tuple, found)) == expected
    assert [(span.partition, span.first, span.end) for span in spans_of(ranges)] == [(0, 2, 12), (3, 0, 20)]
    assert [(run.partition, run.first, run.end) for run in runs_of(ranges)] == [
        (0, 2, 5),
        (0, 10, 12),
        (3, 0, 20),
    ]


def test_a_range_has_the_columns_of_events(context: Context, broker: Broker, topic: str) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait(topic, b'{"n": 5}', b"k", partition=1, headers=[("h", b"1")])

    asyncio.run(send())
    frame = ranges_to_dataframe(context, [Range(topic, 1, 0, 0)])
    assert frame.dtypes == events_to_dataframe(context.spark, []).dtypes
    assert frame.dtypes == ranges_to_dataframe(context, []).dtypes
    row = parse_json(frame, "n INT").select("key", "headers", "record.n", "bad_record").first()
    assert row is not None
    assert row.asDict(recursive=True) == {
        "key": b"k",
        "headers": [{"key": "h", "value": b"1"}],
        "n": 5,
        "bad_record": None,
    }


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_range_is_read_whatever_its_compression(
    context: Context, broker: Broker, topic: str, codec: str
) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec) as producer:
            await producer.send_and_wait(topic, bytes(10_000), partition=1)

    asyncio.run(send())
    row = ranges_to_dataframe(context, [Range(topic, 1, 0, 0)]).select("value").first()
    assert row is not None
    assert row.value == bytes(10_000)


@pytest.mark.parametrize(
    ("jar", "name"),
    [("at.yawk.lz4_lz4-java", "net/jpountz/lz4/LZ4Factory"), ("zstd-jni", "com/github/luben/zstd/Zstd")],
)
def test_spark_decompresses_by_the_jars_that_are_locked(context: Context, jar: str, name: str) -> None:
    where = f"SELECT java_method('java.lang.ClassLoader', 'getSystemResource', '{name}.class')"
    (found,) = context.spark.sql(where).first() or ("",)
    connector = nearest_version(pyspark.__version__).connector
    assert any(f"/{locked}!" in found for locked in spark_jar_set(connector).lock.digests if jar in locked)


def test_records_that_are_gone_fail_the_read(context: Context, broker: Broker, topic: str) -> None:
    produce(broker, topic, 80)
    truncate(broker, topic, 0, before=5)
    with pytest.raises(Exception, match="offset"):
        ranges_to_dataframe(context, [Range(topic, 0, 2, 9)]).count()


def test_a_session_that_was_closed_from_outside_is_replaced_once_a_handler_has_failed(
    spark: SharedSpark, context: Context
) -> None:
    ids: list[str] = []
    worker = WorkerSpark(spark.link.session_url, str(uuid.uuid4()), {}, __name__, ids.append)
    closed = worker.session
    asyncio.run(interrupt(spark.link.session_url, closed.session_id))
    assert worker.session is closed
    worker.doubt(ConnectionError())
    assert worker.session.range(3).count() == 3
    assert ids == [worker.session.session_id] != [closed.session_id]
    end_session(worker.session)
