"""Acks that come before their record's handler, its delivery, or its partition's start."""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from ack_bench import (
    BATCHES,
    ENABLE,
    OBEYS,
    OBEYS_IN_A_THREAD,
    ONLY,
    WRITES,
    Ends,
    ack,
)
from worker_bench import Bench, bench, records, until

from headrace.runtime.config.delivery_policy import FailurePolicy
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.partitions.state import PartitionState


async def test_a_record_that_waits_in_the_worker_is_not_handled_once_it_is_acked(tmp_path: Path) -> None:
    handler = """
        import nuclio
        async def handler(context, event):
            write(event.offset)
            await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))
            if event.offset == 300:
                for offset in (302, 305, 300, 299):
                    await context.platform.explicit_ack(nuclio.QualifiedOffset("t", 0, offset))
            if event.offset == 310:
                await context.platform.explicit_ack_through(nuclio.QualifiedOffset("t", 0, 315))
    """
    async with bench(tmp_path, handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0), start=299)
        b.feed(p, records(299, 1))
        await b.settled(p, 300)
        b.expect_quick_handlers()
        b.feed(p, records(300, 20))
        b.wait_deaf(lambda: "319" in b.lines())  # else the processor would recall what was acked
        skipped = {302, 305, 311, 312, 313, 314, 315}
        assert b.lines() == [str(offset) for offset in range(299, 320) if offset not in skipped]
        await b.settled(p, 320)


async def test_a_record_that_waits_in_one_worker_is_not_handled_once_another_has_acked_it(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, OBEYS_IN_A_THREAD, workers=2, static=True, policy=ENABLE) as b:
        _, p = b.assign(("t", 0), ("t", 1), start=300)
        waiting = records(300, 6)
        waiting[0].value = b"wait"
        b.expect_quick_handlers()
        b.feed(p, waiting)
        await until(lambda: "1 300" in b.lines())
        assert p.lane.in_flight_count == 6
        assert await ack(b, 302, 304, partition=1) == ["True"] * 2
        await until(lambda: p.lane.in_flight_count == 1)  # the others have come back
        (tmp_path / "go").touch()
        await b.settled(p, 306)
        assert b.lines() == ["1 300", "1 301", "1 303", "1 305"]


async def test_a_failed_record_that_waits_in_the_worker_again_is_not_handled_once_it_is_acked(
    tmp_path: Path,
) -> None:
    handler = OBEYS_IN_A_THREAD.replace(
        "    if event.body", "    assert event.body != b'no'\n    if event.body"
    )
    patient = replace(ENABLE, failure=FailurePolicy(max_attempts=3, backoff_seconds=600))
    async with bench(tmp_path, handler, static=True, policy=patient) as b:
        p, busy = b.assign(("t", 0), ("t", 1))
        failing, waiting = records(0, 3), records(0, 1)
        failing[1].value, waiting[0].value = b"no", b"wait"
        b.feed(p, failing)
        await until(lambda: p.lane.state is PartitionState.BACKOFF)
        b.feed(busy, waiting)
        await until(lambda: "1 0" in b.lines())
        b.expect_quick_handlers()
        b.dispatcher._failures.retry(p.lane)
        assert p.lane.in_flight_count == 1
        assert await ack(b, 1) == ["True"]
        await until(lambda: not p.lane.is_recalled)  # it has come back
        (tmp_path / "go").touch()
        await b.settled(p, 3)
        assert [line for line in b.lines() if line.startswith("0 ")] == ["0 0", "0 1", "0 2"]


async def test_records_acked_before_they_are_fetched_are_not_delivered(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ENABLE) as b:
        b.dispatcher.connect(Ends(20))
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await b.settled(p, 5)
        assert await ack(b, 19, 7, 5) == ["True"] * 3
        assert p.checkpoint == Checkpoint(6, acked=((7, 8), (19, 20)))
        b.feed(p, records(5, 15))
        await b.settled(p, 20)
        assert b.lines() == [f"0 {offset}" for offset in range(20) if offset not in (5, 7, 19)]


async def test_records_acked_while_they_wait_in_the_processor_are_not_delivered(tmp_path: Path) -> None:
    async with bench(tmp_path, OBEYS_IN_A_THREAD, static=True, policy=ENABLE) as b:
        (p,) = b.assign(("t", 0))
        batch = records(0, 200)
        batch[0].value = b"wait"
        b.feed(p, batch)
        await until(b.lines)
        assert p.lane.buffer.count
        await ack(b, 150, 151, 199)
        (tmp_path / "go").touch()
        await b.settled(p, 200)
        assert b.lines() == [f"0 {offset}" for offset in range(200) if offset not in (150, 151, 199)]


async def test_acks_made_before_the_start_is_known_wait_for_it(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ENABLE) as b:
        b.dispatcher.connect(Ends(10))
        b.dispatcher.on_assigned([PartitionKey("t", 0), PartitionKey("t", 1)])
        await until(lambda: asks_until_true(b))
        await ack(b, 5, 1, 9)
        p, q = (of_records(PartitionKey("t", number), Checkpoint(3), 256) for number in (0, 1))
        b.dispatcher.begin([p, q])
        assert p.checkpoint == Checkpoint(3, acked=((5, 6), (9, 10)))
        b.feed(p, records(3, 7))
        await b.settled(p, 10)
        assert b.lines() == ["0 3", "0 4", "0 6", "0 7", "0 8"]


def asks_until_true(b: Bench) -> bool:
    """Ack offset 1 of t/1 until the worker has heard that it is owned."""
    path = b.folder / "todo"
    asked = len(path.read_text().splitlines()) if path.exists() else 0
    done = b.lines("done")
    if len(done) < asked:
        return False
    if done and done[-1] == "True":
        return True
    with path.open("a") as todo:
        todo.write("explicit_ack t 1 1\n")
    return False


async def test_acks_that_waited_in_vain_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ENABLE) as b:
        b.dispatcher.on_assigned([PartitionKey("t", 0), PartitionKey("t", 1)])
        await until(lambda: asks_until_true(b))
        await ack(b, 5)
        b.dispatcher.on_revoked(None)
        assert "an ack of t/0 offset 5 is refused" in caplog.text


async def test_a_batch_whose_records_are_all_acked_before_it_starts_holds_up_nothing(tmp_path: Path) -> None:
    class Slow(Ends):
        def __init__(self) -> None:
            super().__init__(100)
            self.asked = asyncio.Event()
            self.safe = asyncio.Event()

        async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
            self.asked.set()
            await self.safe.wait()
            return True

    handler = """
async def handler(context, events):
    for event in events:
        write(event.offset)
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=BATCHES) as b:
        b.dispatcher.connect(source := Slow())
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 15))
        await source.asked.wait()
        while await ack(b, 0) != ["True"]:  # the worker hears that the partition is its own
            pass
        await ack(b, *range(1, 10))
        source.safe.set()
        await b.settled(p, 15)
        assert b.lines() == [str(offset) for offset in range(10, 15)]
