"""What is committed of a batch before its worker gets it, and who repeats it after that."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from batch_bench import SEES, WAITS, batch_bench, fresh
from worker_bench import kill_worker, records, until

from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.state import PartitionState


async def test_a_batch_is_committed_as_a_plan_before_its_worker_gets_it(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=6) as b:
        b.source.may_answer.clear()
        p, q = b.assign(Checkpoint(10), Checkpoint(20))
        b.feed(4, p)
        b.feed(4, q)
        await until(lambda: b.source.commits)
        assert b.source.commits == [
            {0: Checkpoint(10, plan=PlannedBatches(10, 14)), 1: Checkpoint(20, plan=PlannedBatches(20, 22))}
        ]
        assert (p.lane.state, p.lane.in_flight_count, q.lane.in_flight_count) == (
            PartitionState.PLANNING,
            0,
            0,
        )
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
        assert b.source.commits == 2 * [{0: Checkpoint(0, plan=PlannedBatches(0, 4))}]
        assert p.lane.in_flight_count == 0
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
        assert p.lane.worker_index == 1
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
        start = Checkpoint(12, plan=PlannedBatches(10, 21), acked=((14, 16), (25, 26)))
        p, q = b.assign(start, Checkpoint(0), capacity=8)
        b.feed(4, p)
        b.feed(4, q)
        await b.settled(4, q)
        assert p.may_grow  # it has more than half of its capacity, and waits for the whole
        assert b.seen == [[(1, o, 1) for o in range(4)]]
        b.feed(p.to_fetch, p)
        b.feed(7, p)
        await b.settled(26, p)
        theirs = [o for o in range(12, 21) if o not in (14, 15)]
        assert b.offsets[1:] == [theirs, [21, 22, 23, 24]]
        assert b.source.commits[-1] == {0: replace(start, plan=PlannedBatches(10, 21, behind=((21, 25),)))}


async def test_a_plan_survives_a_partition_that_leaves_again_before_it_is_whole(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=4) as b:
        start = Checkpoint(0, plan=PlannedBatches(0, 9))
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
        assert said == [Checkpoint(0, plan=PlannedBatches(0, 3)), Checkpoint(7, plan=PlannedBatches(7, 9))]
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
        await until(lambda: p.lane.state is PartitionState.REVOKED)
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
        assert not p.lane.is_recalled
        assert not q.lane.is_recalled
        assert not any(worker.in_flight.is_straggling for worker in b.bench.dispatcher.workers)
        (tmp_path / "go").touch()
        await b.settled(3, p, q)


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
        assert said == Checkpoint(1, plan=PlannedBatches(4, 8))
        await b.bench.dispatcher.revoke([p], 0)
        (tmp_path / "go").touch()
        (heir,) = b.assign(said, window=3)
        b.feed(9, heir)
        await b.settled(10, heir)
        assert b.offsets[2:] == [[1, 2, 3], [4, 5, 6, 7], [8, 9]]


async def test_one_commit_plans_all_full_batches_of_all_partitions_and_none_goes_before(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, SEES, size=4, timeout_seconds=0.01) as b:
        b.source.may_answer.clear()
        p, q = b.assign(*fresh(2))
        for partition, count in ((p, 12), (q, 9)):
            b.bench.dispatcher.add(partition, records(0, count))
        b.bench.dispatcher.dispatch()
        await until(lambda: b.source.commits)
        ahead = {
            0: Checkpoint(0, plan=PlannedBatches(0, 4, behind=((4, 8), (8, 12)))),
            1: Checkpoint(0, plan=PlannedBatches(0, 4, behind=((4, 8),))),
        }
        assert b.source.commits == [ahead]
        assert not b.seen
        b.source.may_answer.set()
        await b.settled(12, p)
        await b.settled(9, q)
        # The last record is no full batch: it waits for its time, and has a plan of its own.
        assert b.source.commits == [ahead, {1: Checkpoint(8, plan=PlannedBatches(8, 9))}]
        assert sorted(b.times.values()) == [1] * 21


async def test_a_worker_has_its_next_batch_while_it_is_in_one(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, WAITS, size=4) as b:
        p, q, r = b.assign(*fresh(3))
        b.feed(4, p, q, r)
        (worker,) = b.bench.dispatcher.workers
        await until(lambda: b.seen and len(worker.in_flight.runs) == 2)
        assert [run.lane for run in worker.in_flight.runs] == [p.lane, q.lane]
        assert r.lane.in_flight_count == 0
        (tmp_path / "go").touch()
        await b.settled(4, p, q, r)


async def test_what_waits_behind_a_long_batch_goes_to_a_worker_that_idles(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if events[0].shard_id == 0:
                wait_for("go")
    """
    async with batch_bench(tmp_path, handler, size=4, workers=2) as b:
        partitions = p, *others = b.assign(*fresh(4))
        b.feed(4, *partitions)
        await b.settled(4, *others)
        assert p.ledger.committable == 0
        (tmp_path / "go").touch()
        await b.settled(4, p)
        assert sorted(b.times.values()) == [1] * 16


async def test_what_waits_behind_a_batch_that_kills_its_worker_comes_again_and_is_not_to_blame(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, WAITS, size=4) as b:
        p, q = b.assign(*fresh(2))
        b.feed(4, p, q)
        (worker,) = b.bench.dispatcher.workers
        await until(lambda: b.seen and len(worker.in_flight.runs) == 2)
        kill_worker(b.bench)
        await until(lambda: worker.restarts)
        (tmp_path / "go").touch()
        await b.settled(4, p, q)
        assert b.seen == [[(0, o, 1) for o in range(4)]] * 2 + [[(1, o, 1) for o in range(4)]]


async def test_batches_that_succeeded_since_the_last_commit_come_again_as_they_were(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=4) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(12, p)
        await b.settled(12, p)
        (said,) = b.source.commits
        await b.bench.dispatcher.revoke([p], 0)  # as after a crash: nothing more was committed
        (heir,) = b.assign(said[0])
        b.feed(12, heir)
        await b.settled(12, heir)
        assert b.offsets == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]] * 2
