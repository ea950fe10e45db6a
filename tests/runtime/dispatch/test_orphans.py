"""What a worker had handled, and nobody had acked, when it died: it comes again, and nothing else does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ack_bench import BATCHES, ENABLE, OBEYS, ONLY, WRITES, ack, handled
from refetching import Log
from worker_bench import Bench, bench, kill_worker, records, until

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import of_ranges
from headrace.runtime.partitions.state import PartitionState

WRITES_ATTEMPTS = """
async def handler(context, event):
    write(f"{event.shard_id} {event.offset} {event.attempt}")
"""


async def died(b: Bench, index: int = 0) -> None:
    """Kill a worker, and wait until another process is in its place."""
    worker = b.dispatcher.workers[index]
    pid = worker.pid
    kill_worker(b, index)
    await until(lambda: worker.pid != pid and worker.is_ready)


async def test_what_was_handled_and_not_acked_comes_again_in_order_before_what_is_new(tmp_path: Path) -> None:
    async with bench(tmp_path, OBEYS + WRITES_ATTEMPTS, static=True, policy=ONLY) as b:
        log = Log(b)
        p, q = b.assign(("t", 0), ("t", 1))
        b.feed(p, records(0, 6))
        b.feed(q, records(0, 1))
        await handled(b, 7)
        assert await ack(b, 0, 3) == ["True"] * 2
        assert await ack(b, 0, partition=1) == ["True"]
        await died(b)
        await until(lambda: p.ledger.position == 6)
        b.feed(p, records(6, 2))
        await handled(b, 13)
        assert log.asked == [1]
        again = [f"0 {offset} 1" for offset in (1, 2, 4, 5, 6, 7)]
        assert [line for line in b.lines() if line.startswith("0")][6:] == again
        assert await ack(b, 1, 2, 4, 5, 6, 7) == ["True"] * 6
        assert p.checkpoint == Checkpoint(8)
        assert not p.failed


async def test_a_death_counts_against_the_record_that_it_was_in_alone(tmp_path: Path) -> None:
    handler = """
async def handler(context, event):
    write(f"{event.shard_id} {event.offset} {event.attempt}")
    if event.offset == 3 and event.attempt == 1:
        os._exit(3)
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=ONLY) as b:
        Log(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await until(lambda: p.awaiting_ack == {0, 1, 2, 3, 4})
        first, again = (0, 1, 2, 3), ((0, 1), (1, 1), (2, 1), (3, 2), (4, 1))
        assert b.lines() == [f"0 {o} 1" for o in first] + [f"0 {o} {attempt}" for o, attempt in again]
        await ack(b, *range(5))
        assert p.checkpoint == Checkpoint(5)


async def test_what_another_worker_has_handled_stays_its(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, workers=2, static=True, policy=ONLY) as b:
        Log(b)
        (p,) = b.assign(("t", 1))
        b.feed(p, records(0, 3))
        await handled(b, 3)
        allocator: Any = b.dispatcher.allocator
        allocator._worker_of[p.key] = 1  # from now on
        b.feed(p, records(3, 3))
        await handled(b, 6)
        await died(b)
        await handled(b, 9)
        assert b.lines()[6:] == ["1 0", "1 1", "1 2"]
        assert p.awaiting_ack == set(range(6))
        await died(b, 1)
        await handled(b, 15)
        assert b.lines()[9:] == [f"1 {offset}" for offset in range(6)]
        await until(lambda: b.dispatcher.workers[0].is_ready)
        assert await ack(b, *range(6), partition=1) == ["True"] * 6
        assert p.checkpoint == Checkpoint(6)


async def test_what_a_response_left_unacked_comes_again_too(tmp_path: Path) -> None:
    handler = """
async def handler(context, event):
    write(f"{event.shard_id} {event.offset}")
    response = nuclio.Response()
    if event.offset % 2:
        response.ensure_no_ack()
    return response
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=ENABLE) as b:
        Log(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 6))
        await handled(b, 6)
        await died(b)
        await handled(b, 9)
        assert b.lines()[6:] == ["0 1", "0 3", "0 5"]


async def test_behind_a_record_that_halts_it_waits_until_somebody_moves_that(tmp_path: Path) -> None:
    handler = """
async def handler(context, event):
    write(f"{event.shard_id} {event.offset} {event.attempt}")
    assert event.offset != 2
"""
    policy = replace(ONLY, failure=replace(ONLY.failure, max_attempts=2))
    async with bench(tmp_path, OBEYS + handler, static=True, policy=policy) as b:
        Log(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 4))
        await until(lambda: p.lane.state is PartitionState.HALTED)
        await died(b)
        assert p.lane.state is PartitionState.HALTED
        b.dispatcher.act("skip", p)
        await until(lambda: p.awaiting_ack == {0, 1, 3})
        assert b.lines() == [f"0 {line}" for line in ("0 1", "1 1", "2 1", "2 2", "0 1", "1 1", "3 1")]


async def test_where_nothing_can_be_fetched_again_it_waits_for_its_acks(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await handled(b, 3)
        await died(b)
        b.feed(p, records(3, 1))
        await handled(b, 4)
        assert p.awaiting_ack == set(range(4))
        assert await ack(b, *range(4)) == ["True"] * 4
        assert p.checkpoint == Checkpoint(4)


async def test_a_range_comes_again_as_it_was(tmp_path: Path) -> None:
    handler = (
        OBEYS
        + """
async def handler(context, events):
    write(" ".join(f"{event.first_offset}-{event.offset}" for event in events))
"""
    )
    policy = replace(BATCHES, ack_mode=ONLY.ack_mode, is_ranges=True)
    event = "headrace.runtime.worker.api.event:RangeEvent"
    async with bench(tmp_path, handler, static=True, policy=policy, event=event) as b:
        p = of_ranges(PartitionKey("t", 0), Checkpoint(0))
        b.dispatcher.begin([p])
        b.dispatcher.extend(p, 10)
        b.dispatcher.dispatch()
        await handled(b, 1)
        b.dispatcher.extend(p, 20)
        await died(b)
        await handled(b, 2)
        assert b.lines() == ["0-9", "0-9"]
        assert await ack(b, 9) == ["True"]
        await handled(b, 3)
        assert b.lines()[2:] == ["10-19"]
