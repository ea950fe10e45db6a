"""Batches that fail: who comes again, with whom, and how often."""

import asyncio
import time
from pathlib import Path

import pytest
from batch_bench import batch_bench, fresh
from failing_batches import RAISES, deliveries, policy
from worker_bench import until

from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import stuck_at


@pytest.mark.full_but("return [[]]", "raise ValueError('no')")
@pytest.mark.parametrize(
    "failing",
    ["raise ValueError('no')", "sys.exit(1)", "return context.Response(status_code=500)", "return []"],
)
async def test_a_batch_that_fails_as_a_whole_comes_again_as_a_whole(tmp_path: Path, failing: str) -> None:
    handler = f"""
        def handler(context, events):
            see(events)
            if events[0].attempt < 3:
                {failing}
    """
    async with batch_bench(tmp_path, handler, size=4, failure=policy()) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(4, p)
        await b.settled(4, p)
        assert b.seen == [[(0, o, attempt) for o in range(4)] for attempt in (1, 2, 3)]
        assert p.checkpoint == Checkpoint(4)


@pytest.mark.full_but("events.pop()", "events.clear()")
@pytest.mark.parametrize(
    "change",
    [
        "events.reverse()",
        "events.pop()",
        "events.clear()",
        "events.sort(key=lambda e: -e.offset)",
        "del events[0]",
    ],
)
async def test_a_handler_may_do_with_its_list_what_it_likes(tmp_path: Path, change: str) -> None:
    handler = f"""
        def handler(context, events):
            see(events)
            responses = [
                context.Response(status_code=500 if (e.offset, e.attempt) == (1, 1) else 200, event_id=e.id)
                for e in events
            ]
            {change}
            return responses
    """
    async with batch_bench(tmp_path, handler, size=4, timeout_seconds=0.05, failure=policy()) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(4, p)
        await b.settled(4, p)
        assert b.seen == [[(0, o, 1) for o in range(4)], [(0, 1, 2)]]
        assert not b.source.dead_letters


async def test_those_that_failed_come_in_the_next_batch_while_the_others_stay_settled(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if events[0].attempt == 1:
                statuses = {0: 200, 1: None, 2: 200, 3: 299, 4: 500, 5: 404}
                return [
                    context.Response(event_id=event.id, status_code=statuses[event.offset])
                    for event in events if event.offset != 1
                ]
    """
    async with batch_bench(tmp_path, handler, size=6, failure=policy()) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(10, p)
        await b.settled(10, p)
        again = [(0, 1, 2), (0, 4, 2), *((0, o, 1) for o in range(6, 10))]
        assert b.seen == [[(0, o, 1) for o in range(6)], again]
        planned, backing_off, planned_again = (commit[0] for commit in b.source.commits)
        assert planned == Checkpoint(0, plan=PlannedBatches(0, 6))
        assert backing_off == Checkpoint(1, attempts=((1, 2, 1), (4, 5, 1)), acked=((2, 4), (5, 6)))
        assert planned_again == Checkpoint(1, ((1, 2, 1), (4, 5, 1)), PlannedBatches(1, 10), ((2, 4), (5, 6)))


NAMES = """
        def handler(context, events):
            see(events)
            return [
                context.Response(event_id=e.id, status_code=500 if e.offset in {bad} else 200)
                for e in events if e.offset not in {missing}
            ]
"""


async def test_a_record_that_the_handler_has_named_is_tried_as_often_as_the_policy_says(
    tmp_path: Path,
) -> None:
    handler = NAMES.format(bad={2, 4}, missing=set())
    async with batch_bench(
        tmp_path, handler, size=6, timeout_seconds=0.02, failure=policy("deadLetter", 3)
    ) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(10, p)
        await b.settled(10, p)
        assert b.source.dead_letters == [(0, 2, 3), (0, 4, 3)]
        assert [attempt for _, attempt in deliveries(b, 2)] == [1, 2, 3]
        assert [attempt for _, attempt in deliveries(b, 4)] == [1, 2, 3]
        assert all(b.times[0, offset] == 1 for offset in (0, 1, 3, 5, 6, 7, 8, 9))


async def test_of_two_that_the_handler_has_named_each_halts_its_partition(tmp_path: Path) -> None:
    handler = NAMES.format(bad={2, 4}, missing=set())
    async with batch_bench(tmp_path, handler, size=6, timeout_seconds=0.02, failure=policy("halt", 2)) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(6, p)
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert stuck_at(p) == 2
        b.bench.dispatcher.act("skip", p)
        await until(lambda: p.lane.state is PartitionState.HALTED and stuck_at(p) == 4)
        b.bench.dispatcher.act("retry", p)
        await until(lambda: p.lane.state is PartitionState.HALTED and b.times[0, 4] == 3)
        assert b.times[0, 2] == 2
        p.on_acked(4, 5)
        assert p.checkpoint == Checkpoint(6)


async def test_a_record_without_a_response_is_searched_for_beside_one_that_has_failed_by_name(
    tmp_path: Path,
) -> None:
    """What a handler hasn't got to, because of the one before, has none either."""
    handler = """
        def handler(context, events):
            see(events)
            responses = []
            for e in events:
                if e.offset == 1:
                    return responses
                responses.append(context.Response(event_id=e.id, status_code=500 if e.offset == 0 else 200))
            return responses
    """
    async with batch_bench(tmp_path, handler, size=4, failure=policy("deadLetter", 2)) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(4, p)
        await b.settled(4, p)
        assert [offset for _, offset, _ in b.source.dead_letters] == [0, 1]
        assert b.times[0, 0] == 2


async def test_each_partition_of_a_failed_batch_goes_its_own_way(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            return [context.Response(event_id=e.id) for e in events if e.shard_id != 1 or e.attempt > 1]
    """
    async with batch_bench(tmp_path, handler, size=9, timeout_seconds=0.05, workers=2) as b:
        partitions = b.assign(*fresh(3))
        b.feed(3, *partitions)
        await b.settled(3, *partitions)
        assert b.seen == [
            [(n, o, 1) for n in range(3) for o in range(3)],
            [(1, o, 2) for o in range(3)],
        ]


async def test_a_halted_record_gets_one_more_delivery_alone_in_a_new_assignment(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, RAISES, size=4, failure=policy("halt")) as b:
        (p,) = b.assign(Checkpoint(5, attempts=((5, 6, 8),)))
        b.feed(4, p)
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert b.seen == [[(0, 5, 9)]]
        assert p.checkpoint == Checkpoint(5, attempts=((5, 6, 9),))


async def test_a_halted_record_is_tried_alone_when_an_operator_says_so(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, RAISES, size=4, timeout_seconds=0.02, failure=policy("halt", 1)) as b:
        (p,) = b.assign(Checkpoint(5))
        b.feed(1, p)
        await until(lambda: p.lane.state is PartitionState.HALTED)
        b.feed(10, p)
        b.bench.dispatcher.act("retry", p)
        await until(lambda: len(b.seen) == 2 and p.lane.state is PartitionState.HALTED)
        assert b.seen == [[(0, 5, 1)], [(0, 5, 2)]]
        b.bench.dispatcher.act("skip", p)
        await b.settled(16, p)
        assert all(b.times[0, offset] == 1 for offset in range(6, 16))


async def test_failed_attempts_are_committed_before_the_next_one(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, RAISES, size=3, failure=policy(attempts=2)) as b:
        (p,) = b.assign(Checkpoint(3))
        b.feed(3, p)
        await b.settled(6, p)
        assert [commit[0] for commit in b.source.commits[:3]] == [
            Checkpoint(3, plan=PlannedBatches(3, 6)),
            Checkpoint(3, attempts=((3, 6, 1),)),
            Checkpoint(3, attempts=((3, 6, 1),), plan=PlannedBatches(3, 6)),
        ]


async def test_a_large_batch_that_fails_as_a_whole_does_not_hold_up_the_processor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def handler(context, events):
            write(len(events))
            if events[0].attempt == 1:
                raise ValueError("no")
    """
    count = 100_000
    async with batch_bench(tmp_path, handler, size=count, failure=policy()) as b:
        (p,) = b.assign(*fresh(1), capacity=2 * count)
        b.feed(count, p)
        longest = await longest_silence_until(lambda: p.ledger.committable == count)
        assert b.bench.lines() == [str(count)] * 2
        assert longest < 2
    assert len(caplog.records) < 50


async def longest_silence_until(condition: object) -> float:
    """Until the condition holds: the most processor time in which the loop gave nobody else a turn."""
    assert callable(condition)
    longest, last = 0.0, time.thread_time()
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.thread_time() - last), time.thread_time()
    return longest
