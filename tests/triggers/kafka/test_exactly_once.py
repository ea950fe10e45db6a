"""exactlyOnce, on a real broker: who reads what is committed finds each result once, after any death."""

import asyncio
import os
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from kafka_records import group_offsets, produce
from replica import Replica, replica, set_trigger, wait_until, write_function
from transactional import read_committed

SENDS = """
    def handler(context, event):
        time.sleep(0.001)
        context.produce(OUT, f"{event.shard_id} {event.offset}", key=str(event.shard_id))
"""


def committed(running: Replica) -> int:
    return sum(it or 0 for it in running.committed().values())


def has_committed(running: Replica, least: int) -> bool:
    return committed(running) >= least


def function(tmp_path: Path, broker: Broker, topic: str, handler: str, **attributes: Any) -> tuple[Path, str]:
    out = broker.create_topic(3)
    attributes = {name: out if value == "OUT" else value for name, value in attributes.items()}
    folder = write_function(
        tmp_path / "f",
        handler.replace("OUT", repr(out)),
        broker.bootstrap,
        [topic],
        exactlyOnce=True,
        **attributes,
    )
    return folder, out


def expected(per_partition: int) -> Counter[bytes | None]:
    return Counter(f"{n} {offset}".encode() for n in range(8) for offset in range(per_partition))


def test_each_result_is_there_once_though_workers_are_killed(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder, out = function(tmp_path, broker, topic, SENDS)
    produce(broker, topic, 4000)
    with replica(folder) as running:
        for kill in range(4):
            wait_until(partial(has_committed, running, 600 * (kill + 1)), about=running)
            os.kill(running.worker_pids()[kill % 2], signal.SIGKILL)
        wait_until(partial(has_committed, running, 4000), about=running)
        assert running.stop() == 0
    assert Counter(read_committed(broker, out)) == expected(500)


@pytest.mark.full
def test_each_result_is_there_once_though_replicas_are_killed(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder, out = function(tmp_path, broker, topic, SENDS)
    produce(broker, topic, 4000)
    for kill in range(3):
        with replica(folder, name=f"killed{kill}") as running:
            wait_until(partial(has_committed, running, 900 * (kill + 1)), about=running)
            running.kill()
    with replica(folder) as running:
        wait_until(partial(has_committed, running, 4000), about=running)
        assert running.stop() == 0
    assert Counter(read_committed(broker, out)) == expected(500)
    assert sum(group_offsets(broker, f"group-{topic}").values()) == 4000


@pytest.mark.full
def test_what_failed_deliveries_have_produced_is_never_there(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        async def handler(context, event):
            context.produce(OUT, f"{event.shard_id} {event.offset}", key=str(event.shard_id))
            if event.offset == 7 and event.attempt < 3:
                raise ValueError("not yet")
            if event.offset == 9:
                await context.produce(OUT, "never")
            if event.offset == 11 and event.attempt < 2:
                context.produce("no/topic", "x")
    """
    failure = {"maxAttempts": 3, "backoff": "10ms", "then": "skip"}
    folder, out = function(
        tmp_path, broker, topic, handler, onFailure=failure, ordering="key", maxConcurrency=20
    )
    produce(broker, topic, 160)
    with replica(folder) as running:
        wait_until(partial(has_committed, running, 160), about=running)
        assert running.stop() == 0
        assert "with exactlyOnce a message is written with the commit of its record" in running.log
        assert "'no/topic' is no topic name" in running.log
    expected_here = expected(20)
    for n in range(8):
        del expected_here[f"{n} 9".encode()]
    assert Counter(read_committed(broker, out)) == expected_here


@pytest.mark.full
def test_a_batch_succeeds_or_fails_as_a_whole(broker: Broker, topic: str, tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            assert len({event.shard_id for event in events}) == 1
            is_first = not exists("failed")
            if is_first:
                write("once", "failed")
            return [
                context.Response(
                    body=f"{event.shard_id} {event.offset}",
                    status_code=500 if is_first and event is events[-1] else 200,
                    event_id=event.id,
                )
                for event in events
            ]
    """
    folder, out = function(tmp_path, broker, topic, handler, resultTopic="OUT", onFailure={"backoff": "10ms"})
    set_trigger(folder, batch={"mode": "enable", "batchSize": 30, "timeout": "100ms"})
    produce(broker, topic, 800)
    with replica(folder) as running:
        wait_until(partial(has_committed, running, 300), about=running)
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        wait_until(partial(has_committed, running, 800), about=running)
        assert running.stop() == 0
        assert "another record of its batch has failed" in running.log
    assert Counter(read_committed(broker, out)) == expected(100)


def test_a_producer_that_is_fenced_is_replaced_by_its_owner(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder, out = function(tmp_path, broker, topic, SENDS)
    produce(broker, topic, 4000)

    async def fence() -> None:
        for number in range(8):
            name = f"group-{topic}-{topic}-{number}"
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name):
                pass

    with replica(folder) as running:
        for turn in range(3):
            wait_until(partial(has_committed, running, 900 * (turn + 1)), about=running)
            asyncio.run(fence())
        wait_until(partial(has_committed, running, 4000), about=running)
        assert running.stop() == 0
    assert Counter(read_committed(broker, out)) == expected(500)
