"""Replicas that stop in a rebalance, or while their broker is away."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from broker import Broker
from joining_replicas import WAITS, WRITES, last_words, only_once
from kafka_records import group_offsets, handled, produce
from replica import Replica, lines, replica, set_trigger, wait_until, write_function

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.config.trigger_kinds import installed_kinds
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.processor.processor import Processor
from headrace.runtime.streams import assignment
from headrace.triggers.kafka import stream as kafka
from headrace.triggers.kafka import trigger


@pytest.mark.full
def test_a_newcomer_that_stops_while_it_waits_for_the_group_leaves_at_once(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", WAITS, broker.bootstrap, [topic], maxWaitHandlerDuringRebalance="40s"
    )
    produce(broker, topic, 80)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        with replica(folder, name="-b") as second:
            first.logged("revoked:")
            began = time.time()
            assert second.stop() == 0
            assert time.time() - began < 30
            assert last_words(second) == ["SIGTERM: stopping", "stopped"]
        (folder / "go").touch()
        first.logged(f"assigned: {topic}/0-7", after=began)
        wait_until(lambda: len(lines(folder)) >= 80, about=first)
        assert first.stop() == 0
    assert only_once(folder, 80)


def test_a_replica_that_stops_while_its_handlers_hold_up_a_rebalance_stops_on_time(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A stop gives handlers workerTerminationTimeout, also where a rebalance would give them more."""
    folder = write_function(
        tmp_path / "f", WAITS, broker.bootstrap, [topic], maxWaitHandlerDuringRebalance="40s"
    )
    set_trigger(folder, workerTerminationTimeout="1s")
    produce(broker, topic, 80)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        with replica(folder, name="-b") as second:
            first.logged("revoked:")
            began = time.time()
            assert first.stop() == 0
            assert 0.9 < time.time() - began < 30
            second.logged(f"assigned: {topic}/0-7")
            (folder / "go").touch()
            wait_until(lambda: len(lines(folder)) >= 82, about=second)
            assert second.stop() == 0
    assert sum(len(set(offsets)) for offsets in handled(folder).values()) == 80


async def test_a_stop_does_not_wait_for_an_assignment_that_is_still_read(
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_reading = asyncio.Event()

    async def read_starts(*_: object) -> None:
        is_reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(kafka, "read_start_offsets", read_starts)
    monkeypatch.setattr(assignment, "_COMMIT_TIMEOUT_SECONDS", 600.0)
    monkeypatch.setattr(trigger, "_LEAVE_TIMEOUT_SECONDS", 600.0)
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    stop = asyncio.Event()
    async with asyncio.timeout(120):
        running = asyncio.create_task(Processor([load_function(folder, installed_kinds())], "").run(stop))
        await is_reading.wait()
    stop.set()
    async with asyncio.timeout(60):
        await running
    assert "offset" not in caplog.text
    assert await asyncio.to_thread(group_offsets, broker, f"group-{topic}") == {}


@contextmanager
def mortal_broker() -> Iterator[tuple[Broker, int]]:
    """A broker of this test's own, and its process."""
    embedded = EmbeddedKafka()
    asyncio.run(embedded.start())
    assert embedded.pid is not None
    try:
        yield Broker(embedded.bootstrap, "embedded"), embedded.pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(embedded.pid, signal.SIGCONT)
        asyncio.run(embedded.stop())


@contextmanager
def stopping_without(folder: Path, how: signal.Signals) -> Iterator[Replica]:
    """A replica with something to commit that is told to stop just after that happened to its broker."""
    with mortal_broker() as (broker, pid):
        topic = broker.create_topic(8)
        write_function(folder, WAITS, broker.bootstrap, [topic])
        produce(broker, topic, 8)
        with replica(folder) as running:
            wait_until(lambda: len(lines(folder)) == 2, about=running)
            os.kill(pid, how)
            (folder / "go").touch()
            running.process.send_signal(signal.SIGTERM)
            yield running


@pytest.mark.full
def test_a_stop_is_bounded_while_the_broker_is_dead_or_frozen(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stopping = [
            stack.enter_context(stopping_without(tmp_path / how.name, how))
            for how in (signal.SIGKILL, signal.SIGSTOP)
        ]
        assert [running.process.wait(120) for running in stopping] == [0, 0]
    lost = "a commit failed (no answer within 5 s): what it covered is delivered again if this replica goes"
    left = "leaving the group failed (no answer within 5 s): it notices by sessionTimeout"
    for_dead, for_frozen = map(last_words, stopping)
    assert for_dead[-2:] == [lost, "stopped"]
    assert for_frozen[-3:] == [lost, left, "stopped"]
