"""Results on their way to another topic, on a real broker: none is missing for a record that is committed."""

import asyncio
import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from broker import Broker
from kafka_records import group_offsets, produce
from replica import Replica, replica, wait_until, write_function

from headrace.runtime.wire.records import Headers

Found = list[tuple[bytes | None, bytes | None, Headers]]


def _has_committed(running: Replica, least: int) -> bool:
    return sum(it or 0 for it in running.committed().values()) > least


def read_all(broker: Broker, topic: str) -> Found:
    """Key, value and headers of all that is there, committed or not."""

    async def read() -> Found:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", group_id=None
        )
        async with consumer:
            ends = await consumer.end_offsets(consumer.assignment())
            left = {tp for tp, end in ends.items() if end}
            found: Found = []
            while left:
                for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                    found += [(it.key, it.value, it.headers) for it in records]
                    if records[-1].offset + 1 >= ends[tp]:
                        left.discard(tp)
            return found

    return asyncio.run(read())


def committed(broker: Broker, topic: str) -> int:
    return sum(group_offsets(broker, f"group-{topic}").values())


@pytest.mark.full
@pytest.mark.usefixtures("either_path")
def test_each_result_is_there_once_before_its_record_is_committed(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, event):
            context.produce(OUT, {"of": event.offset}, key=f"{event.shard_id}", headers={"kind": "test"})
    """
    out = broker.create_topic(3)
    folder = write_function(tmp_path / "f", handler.replace("OUT", repr(out)), broker.bootstrap, [topic])
    produce(broker, topic, 400)
    with replica(folder) as running:
        wait_until(lambda: _has_committed(running, 400 - 1), about=running)
        assert running.stop() == 0
    found = read_all(broker, out)
    assert len(found) == 400
    assert {(key, json.loads(value or b"")["of"]) for key, value, _ in found} == {
        (str(number).encode(), offset) for number in range(8) for offset in range(50)
    }
    assert {tuple(headers) for *_, headers in found} == {(("kind", b"test"),)}


def test_what_a_handler_returns_goes_to_the_result_topic_with_the_records_key(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        async def handler(context, event):
            return None if event.offset % 2 else {"offset": event.offset}
    """
    out = broker.create_topic(3)
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], resultTopic=out)
    produce(broker, topic, 160, keys=5)
    with replica(folder) as running:
        wait_until(lambda: _has_committed(running, 160 - 1), about=running)
        assert running.stop() == 0
    found = read_all(broker, out)
    assert sorted(json.loads(value or b"")["offset"] for _, value, _ in found) == sorted(
        [*range(0, 20, 2)] * 8
    )
    assert {key for key, *_ in found} == {f"k{n}".encode() for n in range(5)}


@pytest.mark.full
def test_no_result_is_missing_for_what_is_committed_when_workers_are_killed(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, event):
            time.sleep(0.001)
            context.produce(OUT, f"{event.shard_id} {event.offset}")
    """
    out = broker.create_topic(3)
    folder = write_function(tmp_path / "f", handler.replace("OUT", repr(out)), broker.bootstrap, [topic])
    produce(broker, topic, 4000)
    with replica(folder) as running:
        for kill in range(4):
            wait_until(partial(_has_committed, running, 600 * (kill + 1)), about=running)
            os.kill(running.worker_pids()[kill % 2], signal.SIGKILL)
        wait_until(lambda: _has_committed(running, 4000 - 1), about=running)
        assert running.stop() == 0
    found = {value for _, value, _ in read_all(broker, out)}
    assert found == {f"{n} {offset}".encode() for n in range(8) for offset in range(500)}
