"""What every stream keeps, beyond the types: a third party's kind, and ours."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from kinds import Kafka, Kind, Lines, V3io, third_party, write_function
from running_trigger import made, running, written
from servers import SharedV3io
from worker_bench import until

from headrace.runtime.partitions.status import PartitionStatus
from headrace.triggers.base import TriggerStatus

WRITES = """
    def handler(context, event):
        write(event.offset - {first})
"""
WAITS_AT_3 = """
    def handler(context, event):
        write(event.offset - {first})
        if event.offset == 3 + {first}:
            wait_for("go")
"""


@pytest.fixture(params=["lines", "kafka", "v3io"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    if request.param == "kafka":
        broker: Broker = request.getfixturevalue("broker")
        yield Kafka(broker, request.getfixturevalue("topic"))
        return
    if request.param == "v3io":
        v3io: SharedV3io = request.getfixturevalue("v3io")
        yield V3io(v3io.url, uuid.uuid4().hex)
        return
    with third_party(tmp_path):
        yield Lines(tmp_path)


@pytest.fixture
def source(kind: Kind) -> Kind:
    kind.appear()
    return kind


async def test_before_it_runs_it_says_why_it_is_not_ready(source: Kind, tmp_path: Path) -> None:
    trigger = made(write_function(tmp_path, source, WRITES.format(first=source.first))).trigger
    assert trigger.problems()
    assert all("\n" not in problem for problem in trigger.problems())
    assert isinstance(trigger.status(), TriggerStatus)
    await trigger.stop(1)


async def test_records_flow_and_its_status_is_typed(source: Kind, tmp_path: Path) -> None:
    await asyncio.to_thread(source.send, 20)
    async with running(write_function(tmp_path, source, WRITES.format(first=source.first))) as it:
        await until(lambda: written(tmp_path) == list(range(20)))
        await until(lambda: it.trigger.problems() == [])
        await asyncio.to_thread(source.send, 5)
        await until(lambda: len(written(tmp_path)) == 25)
        (row,) = it.trigger.status().partitions
        assert isinstance(row, PartitionStatus)
        assert (row.partition, row.state, row.position) == (0, "active", 25 + source.first)
        assert json.loads(json.dumps(it.status()))["partitions"] == [row.json()]
    assert await asyncio.to_thread(source.committed) == 25


async def test_a_stop_before_the_start_and_a_second_one_do_nothing(source: Kind, tmp_path: Path) -> None:
    trigger = made(write_function(tmp_path, source, WRITES.format(first=source.first))).trigger
    await trigger.stop(1)
    await trigger.stop(1)


async def test_a_stop_ends_the_run_and_a_second_one_does_nothing(source: Kind, tmp_path: Path) -> None:
    await asyncio.to_thread(source.send, 3)
    async with running(write_function(tmp_path, source, WRITES.format(first=source.first))) as it:
        await until(lambda: len(written(tmp_path)) == 3)
        await it.trigger.stop(1)
        await it.trigger.stop(1)
        assert it.trigger.status().partitions == ()
    assert await asyncio.to_thread(source.committed) == 3


async def test_a_source_that_is_away_is_waited_for_and_named(kind: Kind, tmp_path: Path) -> None:
    async with running(write_function(tmp_path, kind, WRITES.format(first=kind.first))) as it:
        await until(lambda: any("waiting for" in problem for problem in it.trigger.problems()))
        await asyncio.to_thread(kind.appear)
        await asyncio.to_thread(kind.send, 4)
        await until(lambda: written(tmp_path) == [0, 1, 2, 3])
    assert await asyncio.to_thread(kind.committed) == 4


async def test_a_record_that_outlasts_its_revoke_stays_open_and_comes_again(
    source: Kind, tmp_path: Path
) -> None:
    await asyncio.to_thread(source.send, 5)
    write_function(tmp_path, source, WAITS_AT_3.format(first=source.first), workerTerminationTimeout="100ms")
    async with running(tmp_path):
        await until(lambda: written(tmp_path) == [0, 1, 2, 3])
    assert await asyncio.to_thread(source.committed) == 3
    (tmp_path / "go").touch()
    async with running(tmp_path):
        await until(lambda: written(tmp_path) == [0, 1, 2, 3, 3, 4])
    assert await asyncio.to_thread(source.committed) == 5


async def test_a_worker_that_dies_amid_a_commit_costs_its_record_one_repetition(
    source: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_committing, may_commit = asyncio.Event(), asyncio.Event()
    owner, name = source.commit_method
    commit = getattr(owner, name)

    async def held(*arguments: Any) -> Any:
        is_committing.set()
        await may_commit.wait()
        return await commit(*arguments)

    await asyncio.to_thread(source.send, 6)
    attributes = {"onFailure": {"backoff": "0s"}}
    write_function(tmp_path, source, WAITS_AT_3.format(first=source.first), attributes=attributes)
    async with running(tmp_path) as it:
        await until(lambda: written(tmp_path) == [0, 1, 2, 3])
        monkeypatch.setattr(owner, name, held)
        await is_committing.wait()
        (tmp_path / "go").touch()
        (worker,) = it.dispatcher.workers
        worker.kill()
        may_commit.set()
        await until(lambda: written(tmp_path)[-1] == 5)
        assert await asyncio.to_thread(source.committed) <= 6
    assert written(tmp_path) in (
        [0, 1, 2, 3, 3, 4, 5],
        [0, 1, 2, 3, 4, 5],
    )  # it may have ended before the kill
    assert await asyncio.to_thread(source.committed) == 6
