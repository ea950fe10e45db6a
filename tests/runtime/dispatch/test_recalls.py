"""What comes back from a worker: behind a slow record, at a revoke, from an older assignment."""

import asyncio
from pathlib import Path

from worker_bench import Bench, bench, records, until

from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition


async def test_runs_behind_a_slow_record_move_to_a_worker_that_idles(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            if event.shard_id == 0 and event.offset == 99:
                wait_for("go")
            write(f"{event.shard_id} {event.offset} {context.worker_id}")
    """
    async with bench(tmp_path, handler, workers=2) as b:
        slow, *quick = b.assign(*(("t", number) for number in range(6)))
        for p in (slow, *quick):
            b.feed(p, records(0, 99))
        for p in (slow, *quick):
            await b.settled(p, 99)
        for p in (slow, *quick):
            b.dispatcher.add(p, records(99, 50))
        b.expect_quick_handlers()
        b.dispatcher.dispatch()
        for p in quick:
            await b.settled(p, 149)
        assert slow.ledger.committable == 99
        (tmp_path / "go").touch()
        await b.settled(slow, 149)
        for number in range(6):
            offsets = [int(line.split()[1]) for line in b.lines() if line.startswith(f"{number} ")]
            assert offsets == list(range(149))


async def test_runs_behind_a_slow_record_move_to_a_worker_that_never_idles(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            if event.shard_id == 0 and event.offset == 99:
                wait_for("go")
            time.sleep(0.0003)
    """
    async with bench(tmp_path, handler, workers=2) as b:
        slow, endless, *quick = b.assign(*(("t", number) for number in range(7)))
        for p in (slow, endless, *quick):
            b.feed(p, records(0, 99))
        for p in (slow, endless, *quick):
            await b.settled(p, 99)
        for p in (slow, endless, *quick):
            b.dispatcher.add(p, records(99, 50))
        b.expect_quick_handlers()
        b.dispatcher.dispatch()
        while not all(p.ledger.committable == 149 for p in quick):
            if endless.lane.buffer.count < 50:
                b.feed(endless, records(endless.ledger.position, 50))
            await asyncio.sleep(0.001)
            b.dispatcher.sync_progress()
        assert slow.ledger.committable == 99
        assert endless.lane.in_flight_count, "its worker had enough to do"
        (tmp_path / "go").touch()
        await b.settled(slow, 149)


def only_one_is_left(b: Bench, p: AssignedPartition) -> bool:
    b.dispatcher.sync_progress()
    return p.lane.in_flight_count == 1


async def test_revoked_partitions_finish_what_has_started_and_nothing_else(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            if event.offset == 3:
                wait_for("go")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await until(lambda: "3" in b.lines())
        revoke = asyncio.create_task(b.dispatcher.revoke([p], 600))
        await until(lambda: only_one_is_left(b, p))
        (tmp_path / "go").touch()
        await revoke
        assert b.lines() == ["0", "1", "2", "3"]
        assert p.ledger.committable == 4
        assert b.dispatcher.workers[0].restarts == 0


async def test_a_handler_that_outlasts_the_wait_is_killed_with_what_it_started(tmp_path: Path) -> None:
    handler = """
        import subprocess
        def handler(context, event):
            child = subprocess.Popen(["sleep", "600"])
            write(child.pid)
            wait_for("never")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await until(b.lines)
        await b.dispatcher.revoke([p], 0.2)
        assert p.ledger.committable == 0
        child = Path(f"/proc/{b.lines()[0]}")
        await until(lambda: not child.exists() or "Z (" in (child / "status").read_text())
        (q,) = b.assign(("t", 1))
        (tmp_path / "never").touch()
        b.feed(q, records(0, 5))
        await b.settled(q, 5)


async def test_a_recall_that_meets_the_start_of_its_run_keeps_order_and_loses_nothing(
    tmp_path: Path,
) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
            if event.offset == 0:
                wait_for(f"go{event.shard_id}")
    """
    async with bench(tmp_path, handler, workers=2) as b:
        first, second, behind = b.assign(("t", 0), ("t", 1), ("t", 2))
        b.feed(first, records(0, 1))
        b.feed(second, records(0, 1))
        await until(lambda: {"0 0", "1 0"} <= set(b.lines()))
        b.expect_quick_handlers(ns_per_record=100_000)  # some runs of some records
        b.feed(behind, records(0, 400))
        assert behind.lane.worker_index is not None
        worker = b.dispatcher.workers[behind.lane.worker_index]
        recall = worker.recall

        def recall_once_the_slow_record_has_ended(p: Lane) -> None:
            (tmp_path / f"go{int(second.lane.worker_index == worker.index)}").touch()
            while not any(line.startswith("2 0") for line in b.lines()):
                pass  # the decision is made; the worker goes on before it reads it
            recall(p)

        worker.recall = recall_once_the_slow_record_has_ended  # type: ignore[method-assign, assignment]
        (tmp_path / f"go{int(first.lane.worker_index == worker.index)}").touch()
        await until(lambda: behind.lane.is_recalled and behind.lane.in_flight_count == 1)
        (tmp_path / "go2").touch()
        await b.settled(behind, 400)
        offsets = [int(line.split()[1]) for line in b.lines() if line.startswith("2 ")]
        assert offsets == list(range(400))


async def test_what_a_worker_knows_of_old_assignments_is_forgotten(tmp_path: Path) -> None:
    handler = """
        import gc
        def handler(context, event):
            from headrace.runtime.worker.api.partition_view import PartitionView
            write(sum(isinstance(found, PartitionView) for found in gc.get_objects()))
    """
    async with bench(tmp_path, handler) as b:
        for _ in range(5):
            (p,) = b.assign(("t", 0))
            b.feed(p, records(0, 1))
            await b.settled(p, 1)
            await b.dispatcher.revoke([p], 10)
        assert b.lines()[-1] == "1"
