"""Batches on real workers: what goes together and when, what is committed before, what is settled after."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from batch_bench import SEES, batch_bench, fresh
from worker_bench import Bench, until

from headrace.runtime.config.delivery import AckMode
from headrace.runtime.partitions.assigned import PartitionState
from headrace.runtime.partitions.checkpoint import Checkpoint, Plan
from headrace.runtime.wire.frames import Ack

WAITS = """
    def handler(context, events):
        see(events)
        wait_for("go")
"""
ASYNC_SEES = """
    async def handler(context, events):
        see(events)
        await asyncio.sleep(0.001)
"""


def kill_worker(b: Bench, index: int = 0) -> None:
    pid = b.dispatcher.workers[index].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


# ---- what goes together, and when


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
        assert p.waiting == 2
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
        loop = asyncio.get_running_loop()
        half_time = loop.time() + 0.2
        await until(lambda: loop.time() > half_time)
        b.feed(2, p)
        fed = loop.time()
        await b.settled(5, p)
        assert loop.time() - fed >= 0.4
        assert b.offsets == [[0, 1, 2, 3], [4]]


async def test_a_partition_alone_fills_a_batch_that_is_larger_than_any_run(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=3000, workers=2) as b:
        (p,) = b.assign(*fresh(1), capacity=6000)
        b.feed(6500, p)
        await b.settled(6000, p)
        assert [len(batch) for batch in b.seen] == [3000, 3000]
        assert p.waiting == 500


async def test_a_partition_is_in_one_batch_at_a_time(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, WAITS, size=4, workers=3) as b:
        p, q = b.assign(*fresh(2))
        b.feed(12, p)
        await until(lambda: len(b.seen) == 1)
        b.feed(4, q)
        await until(lambda: len(b.seen) == 2)
        assert [w.in_flight.runs[0].partition for w in b.bench.dispatcher.workers if w.in_flight.runs] == [
            p,
            q,
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


# ---- the plan


async def test_a_batch_is_committed_as_a_plan_before_its_worker_gets_it(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=6) as b:
        b.source.may_answer.clear()
        p, q = b.assign(Checkpoint(10), Checkpoint(20))
        b.feed(4, p)
        b.feed(4, q)
        await until(lambda: b.source.commits)
        assert b.source.commits == [
            {0: Checkpoint(10, plan=Plan(10, 14)), 1: Checkpoint(20, plan=Plan(20, 22))}
        ]
        assert (p.state, p.in_flight_count, q.in_flight_count) == (PartitionState.PLANNING, 0, 0)
        b.source.may_answer.set()
        await b.settled(14, p)
        await b.settled(22, q)
        assert b.seen == [[(0, o, 1) for o in range(10, 14)] + [(1, o, 1) for o in (20, 21)]]
        assert p.checkpoint == Checkpoint(14)


async def test_a_plan_that_cannot_be_committed_is_tried_again_and_nothing_goes_out_before(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, SEES, size=4) as b:
        b.source.answers = [False, False]
        (p,) = b.assign(*fresh(1))
        b.feed(4, p)
        await until(lambda: len(b.source.commits) == 2)
        assert p.in_flight_count == 0
        await b.settled(4, p)
        assert b.source.plans == [{0: (0, 4)}] * 3
        assert b.offsets == [[0, 1, 2, 3]]


@pytest.mark.parametrize("is_back", [True, False], ids=["worker is back", "worker is away"])
async def test_a_worker_that_dies_while_its_plan_is_committed_costs_nothing(
    tmp_path: Path, is_back: bool
) -> None:
    async with batch_bench(tmp_path, SEES, size=4) as b:
        b.source.may_answer.clear()
        (p,) = b.assign(*fresh(1))
        b.feed(6, p)
        await until(lambda: b.source.commits)
        worker = b.bench.dispatcher.workers[0]
        kill_worker(b.bench)
        await until(lambda: not worker.is_ready)
        if is_back:
            await until(lambda: worker.is_ready)
        b.feed(2, p)
        b.source.may_answer.set()
        await b.settled(8, p)
        assert b.seen == [[(0, o, 1) for o in range(4)], [(0, o, 1) for o in range(4, 8)]]


async def test_another_worker_takes_what_was_planned_for_one_that_died(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if context.worker_id == "1" and events[0].shard_id == 0:
                wait_for("go")
    """
    async with batch_bench(tmp_path, handler, size=2, workers=2) as b:
        b.source.may_answer.clear()
        (p,) = b.assign(*fresh(1))
        b.feed(2, p)
        await until(lambda: b.source.commits)
        kill_worker(b.bench)
        await until(lambda: not b.bench.dispatcher.workers[0].is_ready)
        b.source.may_answer.set()
        await until(lambda: b.seen == [[(0, 0, 1), (0, 1, 1)]])
        assert p.worker_index == 1
        (tmp_path / "go").touch()
        await b.settled(2, p)


async def test_a_partition_that_leaves_while_its_plan_is_committed_is_not_handed_out(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=6) as b:
        b.source.may_answer.clear()
        p, q = b.assign(*fresh(2))
        b.feed(3, p)
        b.feed(3, q)
        await until(lambda: b.source.commits)
        await b.bench.dispatcher.revoke([p], 10)
        assert p.checkpoint.offset == 0
        b.source.may_answer.set()
        await b.settled(3, q)
        assert b.seen == [[(1, o, 1) for o in range(3)]]


async def test_a_worker_goes_on_when_all_that_was_planned_for_it_has_left(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=3) as b:
        b.source.may_answer.clear()
        (p,) = b.assign(*fresh(1))
        b.feed(3, p)
        await until(lambda: b.source.commits)
        await b.bench.dispatcher.revoke([p], 10)
        b.source.answers = [False]  # the committer is closed
        b.source.may_answer.set()
        (again,) = b.assign(p.checkpoint)
        b.feed(3, again)
        await b.settled(3, again)
        assert b.offsets == [[0, 1, 2]]


async def test_a_plan_of_an_earlier_owner_is_delivered_whole_and_alone_then_all_goes_on(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, SEES, size=4) as b:
        start = Checkpoint(12, plan=Plan(10, 21), acked=((14, 16), (25, 26)))
        p, q = b.assign(start, Checkpoint(0), capacity=8)
        b.feed(4, p)
        b.feed(4, q)
        await b.settled(4, q)
        assert p.has_room  # it has more than half of its capacity, and waits for the whole
        assert b.seen == [[(1, o, 1) for o in range(4)]]
        b.feed(p.room, p)
        b.feed(7, p)
        await b.settled(26, p)
        theirs = [o for o in range(12, 21) if o not in (14, 15)]
        assert b.offsets[1:] == [theirs, [21, 22, 23, 24]]
        assert b.source.plans[1:] == [{0: (10, 21)}, {0: (21, 25)}]


async def test_a_plan_survives_a_partition_that_leaves_again_before_it_is_whole(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=4) as b:
        start = Checkpoint(0, plan=Plan(0, 9))
        (p,) = b.assign(start)
        b.feed(4, p)
        await b.bench.dispatcher.revoke([p], 10)
        assert p.checkpoint == start
        assert b.seen == []


async def test_a_batch_that_outlasts_the_wait_is_killed_and_comes_again_as_it_was(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, WAITS, size=5) as b:
        partitions = b.assign(Checkpoint(0), Checkpoint(7))
        b.feed(3, *partitions)
        await until(lambda: b.seen)
        await b.bench.dispatcher.revoke(partitions, 0.1)
        said = [p.checkpoint for p in partitions]
        assert said == [Checkpoint(0, plan=Plan(0, 3)), Checkpoint(7, plan=Plan(7, 9))]
        (tmp_path / "go").touch()
        heirs = b.assign(*said)
        b.feed(20, *heirs)
        await b.settled(20, heirs[0])
        await b.settled(25, heirs[1])
        assert b.seen[1] == [(0, o, 1) for o in range(3)]
        assert [(1, o, 1) for o in (7, 8)] in b.seen[2:]


async def test_a_batch_that_ends_within_the_wait_is_settled_and_planned_no_more(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, WAITS, size=5) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(8, p)
        await until(lambda: b.seen)
        revoke = asyncio.create_task(b.bench.dispatcher.revoke([p], 30))
        await until(lambda: p.state is PartitionState.REVOKED)
        (tmp_path / "go").touch()
        await revoke
        assert p.checkpoint == Checkpoint(5)
        assert b.bench.dispatcher.workers[0].restarts == 0


async def test_a_batch_whose_other_partition_leaves_and_is_killed_comes_again_as_it_was(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, WAITS, size=6) as b:
        p, q = b.assign(*fresh(2))
        b.feed(3, p, q)
        await until(lambda: b.seen)
        b.feed(9, q)
        await b.bench.dispatcher.revoke([p], 0.1)
        (tmp_path / "go").touch()
        await b.settled(9, q)
        assert b.seen[1:] == [[(1, o, 1) for o in range(3)], [(1, o, 1) for o in range(3, 9)]]


async def test_a_batch_that_waits_in_its_worker_is_not_taken_away_because_another_worker_idles(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, WAITS, size=6, workers=2) as b:
        p, q = b.assign(*fresh(2))
        b.feed(3, p, q)
        await until(lambda: b.seen)
        for _ in range(10):
            await asyncio.sleep(0.01)  # a straggler is looked for all the time
        assert not p.is_recalled
        assert not q.is_recalled
        assert not any(worker.is_straggling for worker in b.bench.dispatcher.workers)
        (tmp_path / "go").touch()
        await b.settled(3, p, q)


# ---- explicit acks


async def test_an_ack_inside_the_handler_counts_before_it_returns(tmp_path: Path) -> None:
    handler = """
        import nuclio_sdk
        def handler(context, events):
            see(events)
            ack = context.platform.explicit_ack
            for event in events[::2]:
                asyncio.get_event_loop().run_until_complete(ack(nuclio_sdk.QualifiedOffset.from_event(event)))
            wait_for("go")
    """
    async with batch_bench(tmp_path, handler, size=6, ack_mode=AckMode.EXPLICIT_ONLY, static=True) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(6, p)
        await until(lambda: p.ledger.settled_spans() == [(2, 3), (4, 5)])
        assert p.ledger.committable == 1
        kill_worker(b.bench)
        (tmp_path / "go").touch()
        await until(lambda: p.unacked == {3})
        assert b.offsets == [[0, 1, 2, 3, 4, 5], [1, 3, 5]]
        b.bench.dispatcher.on_acked(Ack("t", 0, 3, is_through=False))
        assert p.checkpoint == Checkpoint(6)


async def test_a_response_that_says_no_ack_leaves_its_record_open(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            responses = [context.Response(event_id=event.id) for event in events]
            responses[1].ensure_no_ack()
            return responses
    """
    async with batch_bench(tmp_path, handler, size=3, ack_mode=AckMode.ENABLE, static=True) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(6, p)
        await until(lambda: len(b.seen) == 2 and not p.in_flight_count)
        assert p.unacked == {1, 4}
        assert p.checkpoint == Checkpoint(1, acked=((2, 4), (5, 6)))
        b.bench.dispatcher.on_acked(Ack("t", 0, 4, is_through=True))
        assert p.checkpoint == Checkpoint(6)


async def test_what_is_acked_while_its_plan_is_committed_is_left_out_and_the_rest_goes_on(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, SEES, size=3, workers=2, ack_mode=AckMode.ENABLE) as b:
        b.source.may_answer.clear()
        (p,) = b.assign(*fresh(1))
        b.feed(6, p)
        await until(lambda: b.source.commits)
        for offset in range(3):
            b.bench.dispatcher.on_acked(Ack("t", 0, offset, is_through=False))
        b.source.may_answer.set()
        await b.settled(6, p)
        assert b.offsets == [[3, 4, 5]]


async def test_all_unacked_a_partition_gets_what_may_bring_the_acks(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=4, ack_mode=AckMode.EXPLICIT_ONLY, static=True) as b:
        (p,) = b.assign(*fresh(1), capacity=8)
        b.feed(6, p)  # more than half of what it may hold: it gets no more before something is settled
        await until(lambda: len(p.unacked) == 6)
        assert b.offsets == [[0, 1, 2, 3], [4, 5]]
        assert p.room == 2


# ---- ackWindowSize


async def test_what_a_window_holds_back_is_repeated_before_the_plan_behind_it(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, WAITS, size=4, timeout_seconds=0.05) as b:
        (tmp_path / "go").touch()
        (p,) = b.assign(*fresh(1), window=3)
        b.feed(4, p)
        await b.settled(4, p)
        (tmp_path / "go").unlink()
        b.feed(4, p)
        await until(lambda: len(b.seen) == 2)
        said = p.checkpoint
        assert said == Checkpoint(1, plan=Plan(4, 8))
        await b.bench.dispatcher.revoke([p], 0)
        (tmp_path / "go").touch()
        (heir,) = b.assign(said, window=3)
        b.feed(9, heir)
        await b.settled(10, heir)
        assert b.offsets[2:] == [[1, 2, 3], [4, 5, 6, 7], [8, 9]]
