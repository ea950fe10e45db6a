"""maxBufferedBytes, as a whole: what a processor grows by, whatever the number of its partitions."""

import asyncio
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from kafka_records import handled, produce
from replica import Replica, frozen, lines, replica, wait_until, write_function

from headrace.runtime.workers.watchdog import resident_bytes

PARTITIONS = 150
LIMIT_BYTES = 16 << 20
RECORD_BYTES = 8 << 10
SLOW = """
    def handler(context, event):
        write(event.offset)
        time.sleep(0.2)
"""


async def _fill(bootstrap: str, topic: str, partition_bytes: int) -> None:
    """Each partition gets batches of 8 records."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=1 << 17) as producer:
        for _ in range(partition_bytes // (8 * RECORD_BYTES)):
            sent = []
            for partition in range(PARTITIONS):
                batch = producer.create_batch()
                for _ in range(8):
                    batch.append(key=None, value=b"x" * RECORD_BYTES, timestamp=None)
                sent.append(await producer.send_batch(batch, topic, partition=partition))
            await asyncio.gather(*sent)


def _most_grown(running: Replica, idle_bytes: int, seconds: float) -> int:
    most, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        most = max(most, resident_bytes(running.process.pid) - idle_bytes)
        time.sleep(0.05)
    return most


@pytest.mark.usefixtures("either_path")
def test_a_processor_grows_by_no_more_than_it_may_buffer(broker: Broker, tmp_path: Path) -> None:
    """A third more for what the allocator doesn't give back; without a bound it grows twelvefold."""
    topic = broker.create_topic(PARTITIONS)
    folder = write_function(tmp_path / "f", SLOW, broker.bootstrap, [topic], maxBufferedBytes=LIMIT_BYTES)
    with replica(folder, name="-idle") as idle:
        idle.wait_ready()
        idle_bytes = resident_bytes(idle.process.pid)
        assert idle.stop() == 0
    asyncio.run(_fill(broker.bootstrap, topic, 1 << 20))
    with replica(folder) as running:
        wait_until(lambda: lines(folder), about=running)
        grown_bytes = _most_grown(running, idle_bytes, seconds=8)
        assert running.trigger()["bufferedBytes"] <= LIMIT_BYTES
        assert grown_bytes <= LIMIT_BYTES * 4 / 3


@pytest.mark.full
@pytest.mark.usefixtures("either_path")
def test_records_larger_than_all_that_may_be_buffered_come_one_after_the_other(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, 40, size=300_000)
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset}")
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], maxBufferedBytes=1 << 16)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 40, about=running)
        assert running.stop() == 0
    assert handled(folder) == {(topic, partition): list(range(5)) for partition in range(8)}


@pytest.mark.full
@pytest.mark.usefixtures("either_path")
def test_what_is_held_of_a_topic_is_let_go_when_it_is_made_anew(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """While nothing comes, open requests and last answers count for three eighths at most."""
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset}")
            time.sleep(0.05)
    """
    limit_bytes = 1 << 20
    function = write_function(
        tmp_path / "f",
        handler,
        broker.bootstrap,
        [topic],
        maxBufferedBytes=limit_bytes,
        sessionTimeout="30s",
    )
    produce(broker, topic, 1000, size=4000)
    with replica(function) as running:
        wait_until(lambda: running.trigger()["bufferedBytes"] > limit_bytes * 2 / 5, about=running)
        with frozen(running):
            broker.delete(topic)
            broker.create(topic, 8)
            produce(broker, topic, 80)
        wait_until(lambda: set(running.committed().values()) == {10}, 90, about=running)
        wait_until(lambda: running.trigger()["bufferedBytes"] < limit_bytes * 2 / 5, about=running)
        assert f"topic {topic} was made anew" in running.log
        assert running.stop() == 0
