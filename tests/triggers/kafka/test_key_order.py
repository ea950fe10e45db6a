"""Keys in order on a real broker, while workers and replicas come, go and are killed."""

import asyncio
import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from broker import Broker, embedded
from kafka_records import group_offsets
from replica import lines, replica, wait_until, write_function

from headrace.runtime.embedded.kafka import broker as embedded_kafka
from headrace.runtime.embedded.kafka.properties import broker_settings
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import decode_text

KEYS = 40
COUNT = 2000
HANDLER = """
    import uuid

    async def handler(context, event):
        key, call = event.key.decode(), uuid.uuid4().hex
        write(f"start {key} {event.shard_id} {event.offset} {call}")
        await asyncio.sleep(0.01)
        write(f"end {key} {event.shard_id} {event.offset} {call}")
"""


async def produce(broker: Broker, topic: str, first: int, end: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(first, end):
            await producer.send(topic, b"x", b"k%d" % (number % KEYS))


def check(folder: Path) -> tuple[int, int]:
    """How many records ended, and how many started again. AssertionError where the order of a key is broken.

    A call that was killed has no end: whatever starts of its key after it ends its time.
    """
    running: dict[str, tuple[int, str]] = {}
    ended: dict[str, int] = defaultdict(lambda: -1)
    done: set[tuple[str, int]] = set()
    again = 0
    for what, key, partition, offset, call in map(str.split, lines(folder)):
        if what == "end":
            if running.get(key, (0, ""))[1] == call:
                del running[key]
                ended[key] = max(ended[key], int(offset))
                done.add((partition, int(offset)))
            continue
        if key in running:  # that was killed: only its own record may come now
            assert int(offset) <= running[key][0], f"{key} {offset} starts, and {running[key]} has not ended"
        again += (partition, int(offset)) in done
        running[key] = (int(offset), call)
    return len(done), again


@pytest.mark.full_but("key")
@pytest.mark.parametrize("ordering", ["key", "none"])
def test_nothing_is_lost_or_overtaken_by_its_own_key(
    broker: Broker, topic: str, tmp_path: Path, ordering: str
) -> None:
    settings = {"ordering": ordering, "maxConcurrency": 20, "sessionTimeout": "6s"}
    folder = write_function(tmp_path / "f", HANDLER, broker.bootstrap, [topic], workers=2, **settings)
    asyncio.run(produce(broker, topic, 0, COUNT // 2))
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) > 200, about=first)
        os.kill(first.worker_pids()[0], signal.SIGKILL)
        with replica(folder, name="-b") as second:
            second.logged("assigned:")
            asyncio.run(produce(broker, topic, COUNT // 2, COUNT))
            first.kill()
            group = f"group-{topic}"
            wait_until(lambda: sum(group_offsets(broker, group).values()) == COUNT, about=second)
            assert second.stop() == 0
    if ordering == "key":
        assert check(folder)[0] == COUNT
    found = {tuple(line.split()[2:4]) for line in lines(folder) if line.startswith("end")}
    assert len(found) == COUNT


A_TENTH_WAITS = """
    async def handler(context, event):
        while event.offset % 10 == 0 and not exists("go"):
            await asyncio.sleep(0.01)
        write(f"end {event.offset}")
"""


async def committed(bootstrap: str, topic: str) -> Checkpoint:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(f"group-{topic}")
    finally:
        await admin.close()
    offset, text = offsets.get(TopicPartition(topic, 0), (0, ""))
    found = decode_text(offset, text)
    return Checkpoint(offset) if found is None else found.checkpoint


@pytest.mark.full
@pytest.mark.parametrize("ordering", ["key", "none"])
def test_where_a_commit_has_little_room_no_more_overtake_each_other_than_it_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordering: str
) -> None:
    """What has ended doesn't run again after a kill, though the broker takes 512 bytes of metadata."""
    little = {"offset.metadata.max.bytes": "512"}
    monkeypatch.setattr(embedded_kafka, "broker_settings", lambda *given: broker_settings(*given) | little)
    with embedded(t=1) as kafka:
        settings = {"ordering": ordering, "maxConcurrency": 100, "sessionTimeout": "6s"}
        folder = write_function(tmp_path / "f", A_TENTH_WAITS, kafka.bootstrap, ["t"], workers=1, **settings)
        asyncio.run(produce(Broker(kafka.bootstrap, "embedded"), "t", 0, 1000))

        def told() -> set[str]:
            checkpoint = asyncio.run(committed(kafka.bootstrap, "t"))
            return {f"end {offset}" for span in checkpoint.acked for offset in range(*span)}

        with replica(folder, name="-a") as first:
            wait_until(lambda: len(lines(folder)) >= 100 and told() == set(lines(folder)), about=first)
            ended = lines(folder)
            first.kill()
        (folder / "go").touch()
        with replica(folder, name="-b") as second:
            wait_until(lambda: asyncio.run(committed(kafka.bootstrap, "t")).offset == 1000, about=second)
            assert sorted(lines(folder)) == sorted({*lines(folder)})
            assert set(ended) < set(lines(folder))
            assert second.stop() == 0
