"""What every kind of trigger keeps, streams or not: it begins, it ends, it outlives what handlers do."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from broker import Broker
from kinds import Cron, Http, Kafka, Lines, Source, V3io, third_party, write_function
from running_trigger import made, running, written
from servers import SharedV3io
from worker_bench import kill_worker_process, until

from headrace.runtime.processor.running_trigger import RunningTrigger
from headrace.triggers.base import TriggerStatus

COUNTS = """
    def handler(context, event):
        write(len((FOLDER / "log").read_text().split()) if exists("log") else 0)
        {then}
"""
WRITES = COUNTS.format(then="")
WAITS = COUNTS.format(then="wait_for('go')")


@pytest.fixture(params=["lines", "kafka", "v3io", "http", "cron"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    if request.param in {"http", "cron"}:
        yield Http() if request.param == "http" else Cron()
        return
    if request.param == "kafka":
        broker: Broker = request.getfixturevalue("broker")
        kafka = Kafka(broker, request.getfixturevalue("topic"))
        kafka.appear()
        yield kafka
        return
    if request.param == "v3io":
        server: SharedV3io = request.getfixturevalue("v3io")
        v3io = V3io(server.url, uuid.uuid4().hex)
        v3io.appear()
        yield v3io
        return
    with third_party(tmp_path):
        lines = Lines(tmp_path)
        lines.appear()
        yield lines


async def events(source: Source, it: RunningTrigger, count: int) -> "asyncio.Task[None]":
    """On their way, once it is ready for them."""
    await until(lambda: it.trigger.problems() == [])
    return asyncio.create_task(source.have_events(it.trigger, count))


async def test_before_it_runs_it_says_why_it_is_not_ready_and_a_stop_does_nothing(
    source: Source, tmp_path: Path
) -> None:
    trigger = made(write_function(tmp_path, source, WRITES)).trigger
    assert trigger.problems()
    assert all("\n" not in problem for problem in trigger.problems())
    assert isinstance(trigger.status(), TriggerStatus)
    await trigger.stop(1)
    await trigger.stop(1)


async def test_events_flow_and_its_status_is_json(source: Source, tmp_path: Path) -> None:
    async with running(write_function(tmp_path, source, WRITES)) as it:
        sent = await events(source, it, 5)
        await until(lambda: len(written(tmp_path)) >= 5)
        assert json.loads(json.dumps(it.status()))["kind"] == source.name
        assert it.problems() == []
        await sent


async def test_a_stop_ends_the_run_and_nothing_begins_after_it(source: Source, tmp_path: Path) -> None:
    async with running(write_function(tmp_path, source, WRITES)) as it:
        sent = await events(source, it, 3)
        await until(lambda: len(written(tmp_path)) >= 3)
        await sent
        await it.trigger.stop(5)
        before = written(tmp_path)
        await it.trigger.stop(5)
        with suppress(Exception):  # nobody listens any more
            await source.have_events(it.trigger, 1)
    assert written(tmp_path) == before


async def test_a_stop_is_bounded_whatever_its_handlers_do(source: Source, tmp_path: Path) -> None:
    write_function(tmp_path, source, WAITS, workerTerminationTimeout="100ms")
    async with running(tmp_path) as it:
        sent = await events(source, it, 1)
        await until(lambda: written(tmp_path) == [0])
        async with asyncio.timeout(300):
            await it.stop()
        await sent
    assert written(tmp_path) == [0]


async def test_it_goes_on_after_a_worker_has_died_in_an_event(source: Source, tmp_path: Path) -> None:
    write_function(tmp_path, source, WAITS, attributes=retrying(source))
    async with running(tmp_path) as it:
        sent = await events(source, it, 3)
        await until(lambda: written(tmp_path) == [0])
        (tmp_path / "go").touch()
        kill_worker_process(it.dispatcher.workers[0])
        await until(lambda: len(written(tmp_path)) >= 3)
        await sent


async def test_it_goes_on_after_a_handler_has_failed(source: Source, tmp_path: Path) -> None:
    fails = COUNTS.format(then="assert (FOLDER / 'log').read_text().split()[-1] != '0'")
    write_function(tmp_path, source, fails, attributes=retrying(source))
    async with running(tmp_path) as it:
        sent = await events(source, it, 3)
        await until(lambda: len(written(tmp_path)) >= 3)
        await sent


def retrying(source: Source) -> dict[str, object]:
    """At once, where something is tried again at all."""
    return {} if source.name == "http" else {"onFailure": {"backoff": "0s"}}
