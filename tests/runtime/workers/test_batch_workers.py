"""Batches on real workers: what goes together, and when."""

import asyncio
from pathlib import Path

import pytest
from batch_bench import SEES, WAITS, batch_bench, fresh
from worker_bench import until

from headrace.runtime.partitions.offsets.checkpoint import Checkpoint

ASYNC_SEES = """
    async def handler(context, events):
        see(events)
        await asyncio.sleep(0.001)
"""


@pytest.mark.full_but("static-sync")
@pytest.mark.parametrize("handler", [SEES, ASYNC_SEES], ids=["sync", "async"])
@pytest.mark.parametrize("static", [False, True], ids=["pool", "static"])
async def test_every_record_is_in_one_batch_in_order_with_those_of_other_partitions(
    tmp_path: Path, handler: str, static: bool
) -> None:
    async with batch_bench(tmp_path, handler, size=7, timeout_seconds=0.05, workers=2, static=static) as b:
        partitions = b.assign(*fresh(4))
        for _ in range(10):
            b.feed(5, *partitions)
            await asyncio.sleep(0)
        await b.settled(50, *partitions)
        assert max(map(len, b.seen)) == 7
        assert any(len({number for number, _, _ in batch}) > 1 for batch in b.seen)
        assert all(attempt == 1 for batch in b.seen for _, _, attempt in batch)
        for number in range(4):
            mine = [offset for batch in b.seen for n, offset, _ in batch if n == number]
            assert mine == list(range(50))


async def test_a_handler_gets_a_list_of_events(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            write(type(events).__name__)
            write([(e.topic, e.shard_id, e.offset, e.body, e.id) for e in events])
    """
    async with batch_bench(tmp_path, handler, size=2) as b:
        (p,) = b.assign(Checkpoint(3))
        b.feed(2, p)
        await b.settled(5, p)
        assert b.bench.lines() == ["list", str([("t", 0, 3, b"3", "t/0/3"), ("t", 0, 4, b"4", "t/0/4")])]


async def test_a_full_batch_goes_at_once_and_a_partial_one_waits(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=4, timeout_seconds=600) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(10, p)
        await b.settled(8, p)
        assert b.offsets == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert p.lane.buffer.count == 2
        b.feed(2, p)
        await b.settled(12, p)
        assert b.offsets[2:] == [[8, 9, 10, 11]]


async def test_a_partial_batch_goes_when_its_first_record_has_waited(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=100, timeout_seconds=0.3) as b:
        p, q = b.assign(*fresh(2))
        loop = asyncio.get_running_loop()
        started = loop.time()
        b.feed(3, p)
        b.feed(2, q)
        await b.settled(3, p)
        assert loop.time() - started >= 0.3
        assert b.seen == [[(0, 0, 1), (0, 1, 1), (0, 2, 1), (1, 0, 1), (1, 1, 1)]]


async def test_what_has_waited_behind_a_batch_for_long_enough_waits_no_more(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            wait_for(f"go{events[0].offset}")
    """
    async with batch_bench(tmp_path, handler, size=10, timeout_seconds=0.2) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(1, p)
        await until(lambda: b.offsets == [[0]])
        b.feed(1, p)
        fed = asyncio.get_running_loop().time()
        await until(lambda: asyncio.get_running_loop().time() - fed > 0.25)
        plans = len(b.source.plans)
        (tmp_path / "go0").touch()
        await b.settled(1, p)
        assert len(b.source.plans) == plans + 1  # in the same breath, not a timeout later
        (tmp_path / "go1").touch()
        await b.settled(2, p)


async def test_what_a_full_batch_leaves_waits_for_its_own_time(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=4, timeout_seconds=0.4) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(3, p)
        p.lane.waiting_since -= 0.39  # they have nearly waited enough
        loop = asyncio.get_running_loop()
        fed = loop.time()
        b.feed(2, p)
        await b.settled(5, p)
        assert loop.time() - fed >= 0.4
        assert b.offsets == [[0, 1, 2, 3], [4]]


async def test_a_partition_alone_fills_a_batch_that_is_larger_than_any_run(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=3000, workers=2) as b:
        (p,) = b.assign(*fresh(1), capacity=6000)
        b.feed(6500, p)
        await b.settled(6000, p)
        assert [len(batch) for batch in b.seen] == [3000, 3000]
        assert p.lane.buffer.count == 500


async def test_a_partition_is_in_one_batch_at_a_time(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, WAITS, size=4, workers=3) as b:
        p, q = b.assign(*fresh(2))
        b.feed(12, p)
        await until(lambda: len(b.seen) == 1)
        b.feed(4, q)
        await until(lambda: len(b.seen) == 2)
        assert [w.in_flight.runs[0].lane for w in b.bench.dispatcher.workers if w.in_flight.runs] == [
            p.lane,
            q.lane,
        ]
        (tmp_path / "go").touch()
        await b.settled(12, p)
        await b.settled(4, q)
        assert sorted(b.times.values()) == [1] * 16


async def test_a_partition_with_many_records_keeps_no_other_from_its_turn(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=4, timeout_seconds=0.01) as b:
        p, q = b.assign(*fresh(2))
        b.feed(200, p)
        b.feed(8, q)
        await b.settled(200, p)
        await b.settled(8, q)
        turns = [batch[0][0] for batch in b.seen]
        assert turns[:4] == [0, 1, 0, 1]


async def test_a_hundred_thousand_records_are_one_batch(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            write(f"{len(events)} {sum(event.offset for event in events)} {events[-1].body}")
    """
    count = 100_000
    async with batch_bench(tmp_path, handler, size=count) as b:
        (p,) = b.assign(*fresh(1), capacity=2 * count)
        b.feed(count, p)
        await b.settled(count, p)
        assert b.bench.lines() == [f"{count} {count * (count - 1) // 2} {str(count - 1).encode()!r}"]


async def test_an_async_handler_leaves_its_background_tasks_running_between_batches(tmp_path: Path) -> None:
    handler = """
        tasks = []
        async def later(offset):
            await asyncio.sleep(0.01)
            write(offset, "background")
        async def handler(context, events):
            tasks.append(asyncio.create_task(later(events[0].offset)))
            see(events)
    """
    async with batch_bench(tmp_path, handler, size=5) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(10, p)
        await until(lambda: b.bench.lines("background") == ["0", "5"])


async def test_a_sync_handler_may_run_the_event_loop_and_return_what_has_still_to_run(tmp_path: Path) -> None:
    handler = """
        async def work(events):
            await asyncio.sleep(0)
            see(events)
        def handler(context, events):
            asyncio.get_event_loop().run_until_complete(asyncio.sleep(0))
            return work(events)
    """
    async with batch_bench(tmp_path, handler, size=5) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(5, p)
        await b.settled(5, p)
        assert b.offsets == [[0, 1, 2, 3, 4]]
