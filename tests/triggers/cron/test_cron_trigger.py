"""Cron triggers with real workers: overlap, attempts, clock steps, stops, replicas."""

import asyncio
import json
import logging
import os
import signal
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from turned_clock import TurnedClock
from worker_bench import PRELUDE, until

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.metrics.runtime_metrics import MetricRegistry
from headrace.runtime.processor.running_trigger import RunningFunction, RunningTrigger
from headrace.triggers.cron.trigger import CronTrigger

NOON = 1_767_355_200.0  # 2026-01-02T12:00:00Z
MINUTELY = {"schedule": "* * * * *"}
WRITES = """
    def handler(context, event):
        write(event.timestamp.time())
"""
WAITS = """
    def handler(context, event):
        write(f"{event.timestamp.time()} {event.attempt}")
        wait_for("go")
"""
FAILS = """
    def handler(context, event):
        write(f"{event.id} {event.attempt}")
        if not exists("mended"):
            raise ValueError("not yet")
"""
DIES = """
    def handler(context, event):
        write(f"{event.id} {event.attempt}")
        if event.attempt == 1:
            os._exit(3)
"""
QUICK_RETRIES = {"maxAttempts": 3, "backoff": "1ms", "maxBackoff": "1ms"}


def made(
    folder: Path,
    handler: str,
    attributes: dict[str, Any],
    clock: TurnedClock | None = None,
    replica_index: int | None = None,
    **fields: object,
) -> RunningTrigger:
    (folder / "function_code.py").write_text(PRELUDE + textwrap.dedent(handler))
    trigger = {"kind": "cron", "attributes": attributes, **fields}
    spec = {"handler": "function_code:handler", "triggers": {"t": trigger}}
    (folder / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": "f"}, "spec": spec}))
    function = load_function(folder)
    of_trigger = replace(function.triggers[0], replica_index=replica_index)
    running = RunningTrigger(RunningFunction(function), of_trigger, MetricRegistry(), {})
    if clock is not None:
        running.trigger = CronTrigger(of_trigger, running.dispatcher, running.metrics, "", clock)
    return running


@asynccontextmanager
async def running(it: RunningTrigger) -> AsyncIterator[RunningTrigger]:
    await it.start_workers()
    run = asyncio.create_task(it.run())
    try:
        await until(lambda: not it.trigger.problems())
        yield it
    finally:
        await it.stop()
        await run


def lines(folder: Path) -> list[str]:
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


def counts(it: RunningTrigger) -> tuple[int, int]:
    about = it.trigger.status().about
    return about["fired"], about["skipped"]


async def idle(it: RunningTrigger) -> None:
    """All that was handed out has ended."""
    await until(lambda: not any(worker.in_flight for worker in it.dispatcher.workers))


async def test_each_minute_is_an_event_with_its_time(tmp_path: Path) -> None:
    clock = TurnedClock(NOON - 0.5)
    async with running(made(tmp_path, WRITES, MINUTELY, clock)) as it:
        for minute in range(3):
            await clock.turn(1 if not minute else 60)
            await until(lambda expected=minute + 1: len(lines(tmp_path)) == expected)
            await idle(it)
        assert lines(tmp_path) == ["12:00:00", "12:01:00", "12:02:00"]
        assert it.trigger.status().about == {
            "next": "2026-01-02T12:03:00Z",
            "fired": 3,
            "skipped": 0,
            "idle": False,
        }
        assert json.loads(json.dumps(it.status()))["partitions"] == []


async def test_by_the_machines_own_clock_an_interval_fires(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.timestamp.timestamp()} {event.body.decode()} {event.headers}")
    """
    event = {"body": "hello", "headers": {"a": 1}}
    began = time.time()
    async with running(made(tmp_path, handler, {"interval": "50ms", "event": event})) as it:
        await until(lambda: len(lines(tmp_path)) >= 5)
        assert it.trigger.status().about["next"] is not None
    assert all(line.endswith(" hello {'a': 1}") for line in lines(tmp_path))
    assert time.time() - began >= 0.25


async def test_a_schedule_in_another_zone_fires_by_its_clock(tmp_path: Path) -> None:
    clock = TurnedClock(NOON - 0.5)
    attributes = {"schedule": "0 13 * * *", "timeZone": "Europe/Berlin"}
    async with running(made(tmp_path, WRITES, attributes, clock)):
        await clock.turn(1)
        await until(lambda: lines(tmp_path) == ["12:00:00"])


async def test_forbid_skips_what_comes_while_the_one_before_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TurnedClock(NOON - 0.5)
    async with running(made(tmp_path, WAITS, MINUTELY, clock, numWorkers=2)) as it:
        await clock.turn(1)
        await until(lambda: lines(tmp_path) == ["12:00:00 1"])
        with caplog.at_level(logging.WARNING):
            await clock.turn(300)
        assert counts(it) == (1, 5)
        assert it.metrics.firings_skipped._value.get() == 5
        said = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
        assert said[0].startswith("t: 1 firing was skipped, 2026-01-02T12:01:00Z the last one")
        (tmp_path / "go").touch()
        await idle(it)
        await clock.turn(60)
        await until(lambda: lines(tmp_path) == ["12:00:00 1", "12:06:00 1"])


async def test_skipped_firings_are_a_line_once_in_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TurnedClock(NOON - 0.5)
    attributes = {"schedule": "*/1 * * * * *"}
    async with running(made(tmp_path, WAITS, attributes, clock)) as it:
        await clock.turn(1)
        await until(lambda: lines(tmp_path) == ["12:00:00 1"])
        await clock.turn(150)
        assert counts(it) == (1, 150)
        (tmp_path / "go").touch()
    said = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert [line.split(" firing")[0] for line in said] == ["t: 1", "t: 60", "t: 60"]


async def test_allow_runs_as_many_at_a_time_as_there_are_workers(tmp_path: Path) -> None:
    clock = TurnedClock(NOON - 0.5)
    attributes = MINUTELY | {"concurrencyPolicy": "Allow"}
    async with running(made(tmp_path, WAITS, attributes, clock, numWorkers=2)) as it:
        await clock.turn(1)
        await until(lambda: len(lines(tmp_path)) == 1)
        await clock.turn(60)
        await until(lambda: len(lines(tmp_path)) == 2)
        await clock.turn(60)
        assert counts(it) == (2, 1)
        (tmp_path / "go").touch()
        await idle(it)
        await clock.turn(60)
        await until(lambda: lines(tmp_path)[2:] == ["12:03:00 1"])


@pytest.mark.parametrize(("catch_up", "follows"), [("once", ["15:00:00"]), ("skip", [])])
async def test_after_a_step_forward_the_missed_ones_are_one_or_none(
    tmp_path: Path, catch_up: str, follows: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    clock = TurnedClock(NOON + 30)
    async with running(made(tmp_path, WRITES, MINUTELY | {"catchUp": catch_up}, clock)) as it:
        with caplog.at_level(logging.WARNING):
            await clock.step(3 * 3600 - 20)  # to 15:00:10
        assert "firings from 2026-01-02T12:01:00Z to 2026-01-02T15:00:00Z were missed" in caplog.text
        await until(lambda: lines(tmp_path) == follows)
        await idle(it)
        await clock.turn(60)
        await until(lambda: lines(tmp_path) == [*follows, "15:01:00"])


async def test_what_is_on_time_after_a_step_fires_whatever_was_missed(tmp_path: Path) -> None:
    clock = TurnedClock(NOON + 30)
    async with running(made(tmp_path, WRITES, MINUTELY | {"catchUp": "skip"}, clock)):
        await clock.step(3600 - 30.5)  # to 12:59:59.5, and a second passes
        await until(lambda: lines(tmp_path) == ["13:00:00"])


@pytest.mark.parametrize(
    ("back", "then"),
    [(59, ["12:01:00", "12:02:00"]), (120, ["12:01:00", "12:00:00", "12:01:00", "12:02:00"])],
)
async def test_after_a_small_step_back_nothing_comes_again(
    tmp_path: Path, back: float, then: list[str]
) -> None:
    clock = TurnedClock(NOON + 59.5)
    async with running(made(tmp_path, WRITES, MINUTELY, clock)) as it:
        await clock.turn(1)
        await until(lambda: lines(tmp_path) == ["12:01:00"])
        await idle(it)
        await clock.step(-back)
        while len(lines(tmp_path)) < len(then):
            await clock.turn(10)
            await until(lambda: len(lines(tmp_path)) == counts(it)[0])
            await idle(it)
        assert lines(tmp_path) == then


async def test_an_interval_goes_on_through_steps_and_counts_the_machines_sleep(tmp_path: Path) -> None:
    clock = TurnedClock(NOON)
    async with running(made(tmp_path, WRITES, {"interval": "10s", "catchUp": "once"}, clock)) as it:
        await clock.step(3600)
        await clock.step(-7200)
        assert lines(tmp_path) == []
        await clock.turn(8)
        await until(lambda: lines(tmp_path) == ["11:00:10"])
        await idle(it)
        await clock.machine_sleeps(25)
        await until(lambda: lines(tmp_path) == ["11:00:10", "11:00:30"])
        await idle(it)
        await clock.turn(5)
        await until(lambda: lines(tmp_path) == ["11:00:10", "11:00:30", "11:00:40"])


async def test_a_failed_firing_is_not_tried_again_by_default(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TurnedClock(NOON - 0.5)
    async with running(made(tmp_path, FAILS, MINUTELY, clock)) as it:
        await clock.turn(1)
        await until(lambda: "and isn't tried again" in caplog.text)
        assert (
            "t/2026-01-02T12:00:00Z failed at attempt 1, and isn't tried again: ValueError: not yet"
            in caplog.text
        )
        await idle(it)
        await clock.turn(60)
        await until(lambda: caplog.text.count("and isn't tried again") == 2)
        errors = [it.__dict__["error"] for it in caplog.records if "failed at attempt" in it.getMessage()]
        assert [bool(error) for error in errors] == [True, False]  # the same reason once more is a line
    assert lines(tmp_path) == ["t/2026-01-02T12:00:00Z 1", "t/2026-01-02T12:01:00Z 1"]


async def test_a_failed_firing_is_tried_again_as_often_as_the_file_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TurnedClock(NOON - 0.5)
    async with running(made(tmp_path, FAILS, MINUTELY | {"onFailure": QUICK_RETRIES}, clock)) as it:
        await clock.turn(1)
        await until(lambda: "failed at attempt 3, and isn't tried again" in caplog.text)
        assert caplog.text.count("to be tried again in 0.0 s") == 2
        assert lines(tmp_path) == [f"t/2026-01-02T12:00:00Z {attempt}" for attempt in (1, 2, 3)]
        (tmp_path / "mended").touch()
        await clock.turn(60)
        await until(lambda: lines(tmp_path)[3:] == ["t/2026-01-02T12:01:00Z 1"])
        assert counts(it) == (2, 0)


async def test_what_comes_while_one_waits_for_its_next_attempt_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TurnedClock(NOON - 0.5)
    failure = {"maxAttempts": 2, "backoff": "1h", "maxBackoff": "1h"}
    async with running(made(tmp_path, FAILS, MINUTELY | {"onFailure": failure}, clock)) as it:
        await clock.turn(1)
        await until(lambda: "to be tried again" in caplog.text)
        await clock.turn(60)
        assert counts(it) == (1, 1)
    assert "t/2026-01-02T12:00:00Z isn't run any more: the function stops" in caplog.text


async def test_a_workers_death_is_a_failed_attempt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = TurnedClock(NOON - 0.5)
    async with running(made(tmp_path, DIES, MINUTELY | {"onFailure": QUICK_RETRIES}, clock)):
        await clock.turn(1)
        await until(lambda: len(lines(tmp_path)) == 2)
        assert lines(tmp_path) == [f"t/2026-01-02T12:00:00Z {attempt}" for attempt in (1, 2)]
        assert "failed at attempt 1, to be tried again" in caplog.text


async def test_a_worker_that_is_killed_idle_costs_nothing(tmp_path: Path) -> None:
    clock = TurnedClock(NOON - 0.5)
    async with running(made(tmp_path, WRITES, MINUTELY, clock)) as it:
        (worker,) = it.dispatcher.workers
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        await until(lambda: not worker.is_ready)
        await clock.turn(1)
        await until(lambda: lines(tmp_path) == ["12:00:00"])
        assert counts(it) == (1, 0)


async def test_a_stop_waits_for_what_runs_and_begins_nothing_more(tmp_path: Path) -> None:
    clock = TurnedClock(NOON - 0.5)
    async with running(made(tmp_path, WAITS, MINUTELY, clock)) as it:
        await clock.turn(1)
        await until(lambda: lines(tmp_path) == ["12:00:00 1"])
        stop = asyncio.create_task(it.trigger.stop(300))
        await asyncio.sleep(0)
        assert not stop.done()
        (tmp_path / "go").touch()
        await stop
        assert not any(worker.in_flight for worker in it.dispatcher.workers)
        assert it.trigger.status().about["next"] is None
        await it.trigger.stop(1)
    assert lines(tmp_path) == ["12:00:00 1"]


async def test_a_stop_recalls_what_has_not_started(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = TurnedClock(NOON - 0.5)
    async with running(made(tmp_path, WRITES, MINUTELY, clock)) as it:
        (worker,) = it.dispatcher.workers
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        await until(lambda: not worker.is_ready)
        await clock.turn(1)
        await it.trigger.stop(300)
        assert "t/2026-01-02T12:00:00Z isn't run any more: the function stops" in caplog.text
    assert lines(tmp_path) == []


async def test_a_stop_is_bounded_by_what_it_was_given(tmp_path: Path) -> None:
    clock = TurnedClock(NOON - 0.5)
    it = made(tmp_path, WAITS, MINUTELY, clock, workerTerminationTimeout="100ms")
    async with running(it):
        await clock.turn(1)
        await until(lambda: lines(tmp_path) == ["12:00:00 1"])
    assert not any(worker.in_flight for worker in it.dispatcher.workers)


async def test_a_stop_before_the_start_and_a_second_one_do_nothing(tmp_path: Path) -> None:
    it = made(tmp_path, WRITES, MINUTELY)
    assert it.trigger.problems() == ["not firing yet"]
    await it.trigger.stop(1)
    await it.trigger.stop(1)
    await it.trigger.run()
    assert it.trigger.status().about["next"] is None


@pytest.mark.parametrize(("index", "is_idle"), [(None, False), (0, False), (1, True)])
async def test_of_the_replicas_on_a_machine_the_first_one_fires(
    tmp_path: Path, index: int | None, is_idle: bool
) -> None:
    async with running(made(tmp_path, WRITES, {"interval": "10ms"}, replica_index=index)) as it:
        if not is_idle:
            await until(lambda: lines(tmp_path))
        about = it.trigger.status().about
        assert (about["next"] is None, about["fired"] == 0, about["idle"]) == (is_idle, is_idle, is_idle)
