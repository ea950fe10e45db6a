"""Explicit acks on a real broker: what commits hold, what comes back, what a full partition does."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ack_bench import WRITES
from acks import commits, hole, restart
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from broker import Broker
from kafka_records import produce
from replica import lines, set_trigger, write_function
from scenario import Report
from worker_bench import until

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.config.trigger_kinds import installed_kinds
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.processor.processor import Processor
from headrace.triggers.kafka import start_offsets as kafka_start
from headrace.triggers.kafka import stream as kafka


@pytest.mark.full_but("hole")
@pytest.mark.parametrize("scenario", [restart, hole])
def test_what_the_storm_says(
    broker: Broker, tmp_path: Path, scenario: Callable[[Broker, Path, int, Report], None]
) -> None:
    report = Report()
    scenario(broker, tmp_path, 0, report)
    assert report.show(scenario.__name__)


def explicit(folder: Path, handler: str, broker: Broker, topic: str, **attributes: object) -> Path:
    """A function with one worker that acks explicitly only."""
    attributes["workerAllocationMode"] = "static"
    function = write_function(folder / "f", handler, broker.bootstrap, [topic], 1, **attributes)
    return set_trigger(function, explicitAckMode="explicitOnly")


@asynccontextmanager
async def processing(function: Path) -> AsyncIterator[Processor]:
    """One replica of it, in this process."""
    stop = asyncio.Event()
    processor = Processor([load_function(function, installed_kinds())], "")
    running = asyncio.create_task(processor.run(stop))
    try:
        yield processor
    finally:
        stop.set()
        await running


async def held_by(broker: Broker, topic: str, partitions: int = 1) -> dict[int, Checkpoint]:
    return await asyncio.to_thread(commits, broker, f"group-{topic}", topic, partitions)


async def send(broker: Broker, topic: str, count: int, partitions: int = 1) -> None:
    await asyncio.to_thread(produce, broker, topic, count, partitions)


def delivered(function: Path, since: int = 0) -> list[str]:
    return sorted(lines(function)[since:], key=lambda line: [int(part) for part in line.split()])


def order(function: Path, topic: str, *offsets: int, partition: int = 0) -> None:
    """What worker 0 is to ack."""
    with (function / "todo").open("a") as todo:
        todo.write("".join(f"explicit_ack {topic} {partition} {offset}\n" for offset in offsets))


async def ordered(function: Path, topic: str, *offsets: int, partition: int = 0) -> list[str]:
    """Have worker 0 ack; its answers."""
    before = len(lines(function, "done"))
    order(function, topic, *offsets, partition=partition)
    await until(lambda: len(lines(function, "done")) == before + len(offsets))
    return lines(function, "done")[before:]


async def test_offsets_that_were_stored_are_acked_after_a_restart_before_their_records_come_back(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.create_topic(2)
    stores = """
        import json
        def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
            with open(FOLDER / "stored", "a") as stored:
                stored.write(json.dumps([event.topic, event.shard_id, event.offset]) + "\\n")
    """
    function = explicit(tmp_path, stores, broker, topic)
    await send(broker, topic, 20, 2)
    async with processing(function):
        await until(lambda: len(lines(function)) == 20)
    assert await held_by(broker, topic, 2) == {0: Checkpoint(0), 1: Checkpoint(0)}

    may_read = asyncio.Event()
    read_starts = kafka_start.read_start_offsets

    async def read_late(*arguments: Any) -> Any:
        await may_read.wait()
        return await read_starts(*arguments)

    monkeypatch.setattr(kafka, "read_start_offsets", read_late)
    function = explicit(tmp_path, WRITES, broker, topic)
    stored = [json.loads(line) for line in lines(function, "stored")]
    chosen = [qualified for qualified in stored if qualified[2] in (0, 3, 7)]
    async with processing(function):
        while await ordered(function, topic, 9) != ["True"]:  # the worker has not heard yet
            pass
        for name, partition, offset in chosen:
            assert await ordered(function, name, offset, partition=partition) == ["True"]
        may_read.set()
        await until(lambda: len(lines(function)) == 20 + 13)
        for name, partition, offset in stored:
            assert await ordered(function, name, offset, partition=partition) == ["True"]
    expected = {tuple(qualified[1:]) for qualified in stored} - {(it[1], it[2]) for it in chosen} - {(0, 9)}
    assert delivered(function, 20) == [f"{partition} {offset}" for partition, offset in sorted(expected)]
    assert await held_by(broker, topic, 2) == {0: Checkpoint(10), 1: Checkpoint(10)}


@pytest.mark.parametrize(
    "holds_16",
    [
        {"channelBufferSize": 16},
        {"maxInFlight": 16},
        {"channelBufferSize": 8, "maxInFlight": 16},
        {"fetchMax": 1000, "maxInFlight": 16},  # decoded here
    ],
)
async def test_a_handler_may_collect_as_many_records_as_the_buffer_holds_before_it_acks_any(
    holds_16: dict[str, int], broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that acks nothing gets so many and no more; the log says so, and its neighbour does not notice."""
    handler = """
        import nuclio
        held = []
        async def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
            if event.shard_id == 0:
                held.append(nuclio.QualifiedOffset.from_event(event))
            if len(held) == 16:
                while held:
                    await context.platform.explicit_ack(held.pop())
    """
    topic = broker.create_topic(2)
    function = explicit(tmp_path, handler, broker, topic, **holds_16)
    async with processing(function):
        for count in (2, 14, 6, 100, 70):  # fetches of odd sizes
            before = len(lines(function))
            await send(broker, topic, count, 2)
            await until(lambda before=before: len(lines(function)) > before)
        await until(lambda: Counter(line[0] for line in lines(function)) == {"0": 96, "1": 16})
        await until(lambda: f"{topic}/1 holds 16 unacked records, the first at offset 0" in caplog.text)
    assert f"before some are acked: {[*holds_16][-1]} is reached" in caplog.text
    assert [line for line in lines(function) if line[0] == "0"] == [f"0 {offset}" for offset in range(96)]
    assert await held_by(broker, topic, 2) == {0: Checkpoint(96), 1: Checkpoint(0)}


async def test_the_last_acked_of_a_window_are_repeated_by_the_next_owner_and_no_others(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.create_topic(1)
    function = explicit(tmp_path, WRITES, broker, topic, ackWindowSize=3)
    await send(broker, topic, 10)
    async with processing(function):
        await until(lambda: len(lines(function)) == 10)
        await ordered(function, topic, 9, 0, 1, 4, 2, 6, 8, 3)
    assert await held_by(broker, topic) == {0: Checkpoint(3, acked=((4, 5), (9, 10)))}
    (function / "todo").unlink()
    (function / "done").unlink()
    async with processing(function):
        await until(lambda: len(lines(function)) == 15)
        await ordered(function, topic, 5, 3, 6, 7, 8)
    assert delivered(function, 10) == [f"0 {offset}" for offset in (3, 5, 6, 7, 8)]
    assert await held_by(broker, topic) == {0: Checkpoint(6, acked=((9, 10),))}


async def test_what_is_not_acked_comes_again_with_each_assignment_also_where_the_replica_keeps_it(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.create_topic(2)
    function = explicit(tmp_path, WRITES, broker, topic)
    await send(broker, topic, 10, 2)
    async with processing(function):
        await until(lambda: len(lines(function)) == 10)
        for partition in (0, 1):
            assert await ordered(function, topic, 0, 3, partition=partition) == ["True"] * 2
        other = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=f"group-{topic}",
            enable_auto_commit=False,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        async with other:
            await until(other.assignment)
            await until(lambda: len(lines(function)) == 13)
            ((_, theirs),) = other.assignment()
            kept = 1 - theirs
            assert delivered(function, 10) == [f"{kept} {offset}" for offset in (1, 2, 4)]
            assert await ordered(function, topic, 1, partition=theirs) == ["False"]
            assert await ordered(function, topic, 1, 1, 2, partition=kept) == ["True"] * 3
        await until(lambda: len(lines(function)) == 17)
        again = [f"{kept} 4", *(f"{theirs} {offset}" for offset in (1, 2, 4))]
        assert delivered(function, 13) == sorted(again)
    assert await held_by(broker, topic, 2) == {
        kept: Checkpoint(4),
        theirs: Checkpoint(1, acked=((3, 4),)),
    }


async def test_acks_sent_just_before_a_kill_of_their_worker_are_committed(
    broker: Broker, tmp_path: Path
) -> None:
    """Those that it had not acked come again: nobody else can ack them."""
    handler = """
        import nuclio
        held = []
        async def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
            held.append(nuclio.QualifiedOffset.from_event(event))
            if len(held) == 100:
                for qualified_offset in held[10:]:
                    await context.platform.explicit_ack(qualified_offset)
                os.kill(os.getpid(), signal.SIGKILL)
    """
    topic = broker.create_topic(1)
    function = explicit(tmp_path, handler, broker, topic)
    await send(broker, topic, 101)
    async with processing(function):
        await until(lambda: len(lines(function)) == 111)
    assert lines(function) == [f"0 {offset}" for offset in (*range(100), *range(10), 100)]
    assert await held_by(broker, topic) == {0: Checkpoint(0, acked=((10, 100),))}


async def test_what_a_dead_worker_had_handled_is_fetched_again(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic(1)
    function = explicit(tmp_path, WRITES, broker, topic)
    await send(broker, topic, 20)
    async with processing(function) as processor:
        await until(lambda: len(lines(function)) == 20)
        while await ordered(function, topic, 3) != ["True"]:  # the worker has not heard yet
            pass
        (worker,) = processor._owners[0].dispatcher.workers
        pid = worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await send(broker, topic, 5)
        await until(lambda: len(lines(function)) == 20 + 24)
        assert lines(function)[20:] == [f"0 {offset}" for offset in range(25) if offset != 3]
        done = len(lines(function, "done"))
        order(function, topic, *(offset for offset in range(25) if offset != 3))
        await until(lambda: len(lines(function, "done")) > done + 23)
    assert await held_by(broker, topic) == {0: Checkpoint(25)}


@pytest.mark.usefixtures("either_path")
async def test_what_is_fetched_again_takes_the_place_of_what_was_held(broker: Broker, tmp_path: Path) -> None:
    handler = """
        import nuclio
        held = []
        async def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
            held.append(nuclio.QualifiedOffset.from_event(event))
            if len(held) == 8 and exists("again"):
                while held:
                    await context.platform.explicit_ack(held.pop())
    """
    topic, limit = broker.create_topic(1), 1 << 18
    function = explicit(tmp_path, handler, broker, topic, channelBufferSize=8, maxBufferedBytes=limit)
    await asyncio.to_thread(produce, broker, topic, 200, 1, 8000)
    async with processing(function) as processor:
        (trigger,) = processor._owners
        await until(lambda: len(lines(function)) == 8)
        fetching = trigger.trigger._stream.fetching  # type: ignore[attr-defined]
        await until(lambda: fetching.budget.held_of((topic, 0)))
        (function / "again").touch()
        (worker,) = trigger.dispatcher.workers
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        most = 0
        while len(lines(function)) < 208 or fetching.budget.held_of((topic, 0)):
            most = max(most, fetching.buffered_bytes)
            await asyncio.sleep(0.01)
        assert most < limit + (1 << 17)
    assert lines(function) == [f"0 {offset}" for offset in (*range(8), *range(200))]
    assert await held_by(broker, topic) == {0: Checkpoint(200)}
