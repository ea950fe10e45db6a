"""The dispatcher with real workers: order, failures, deaths."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from worker_bench import bench, kill_worker, records, until

from headrace.runtime.dispatch.monitor import worker_statuses
from headrace.runtime.partitions.state import PartitionState

WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {event.attempt}")
"""


async def test_records_of_a_partition_run_in_order_and_settle(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, workers=2) as b:
        (p,) = b.assign(("t", 0), start=7)
        b.feed(p, records(7, 500))
        await b.settled(p, 507)
        assert b.lines() == [f"t 0 {offset} 1" for offset in range(7, 507)]


async def test_an_async_handler_runs_in_order_and_its_background_tasks_go_on(tmp_path: Path) -> None:
    handler = """
        tasks = []
        async def later(offset):
            await asyncio.sleep(0)
            write(offset, "background")
        async def handler(context, event):
            tasks.append(asyncio.create_task(later(event.offset)))
            write(event.offset)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await b.settled(p, 50)
        assert b.lines() == [str(offset) for offset in range(50)]
        await until(lambda: len(b.lines("background")) == 50)


async def test_a_sync_handler_may_run_the_event_loop_itself(tmp_path: Path) -> None:
    handler = """
        async def answer():
            return 42
        def handler(context, event):
            loop = asyncio.get_event_loop()
            write(loop.run_until_complete(answer()))
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        assert b.lines() == ["42", "42"]


async def test_a_failed_record_is_tried_again_before_any_later_one(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            if event.offset == 20 and event.attempt < 3:
                raise ValueError("not yet")
    """
    async with bench(tmp_path, handler, workers=2) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 60))
        await b.settled(p, 60)
        tries = [f"{offset} 1" for offset in range(21)] + ["20 2", "20 3"]
        assert b.lines() == tries + [f"{offset} 1" for offset in range(21, 60)]


@pytest.mark.full_but("*0*")
@pytest.mark.parametrize(
    "failing",
    [
        "raise ValueError(event.offset)",
        "return context.Response(status_code=503, body='away')",
        "return (500, 'no')",
        "sys.exit(1)",
        "os._exit(1)",
        "os.kill(os.getpid(), signal.SIGSEGV)",
    ],
)
async def test_a_record_that_always_fails_halts_its_partition_and_no_other(
    tmp_path: Path, failing: str
) -> None:
    handler = f"""
        def handler(context, event):
            if event.shard_id == 0 and event.offset == 5:
                {failing}
            write(f"{{event.shard_id}} {{event.offset}}")
    """
    async with bench(tmp_path, handler, workers=2) as b:
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 10))
        b.feed(good, records(0, 10))
        await until(lambda: bad.lane.state is PartitionState.HALTED)
        await b.settled(good, 10)
        assert bad.ledger.committable == 5
        assert [line for line in b.lines() if line.startswith("0 ")] == [f"0 {n}" for n in range(5)]


async def test_a_killed_worker_repeats_only_the_record_that_it_was_in(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            if event.offset == 30 and event.attempt == 1:
                write("here", "reached")
                wait_for("never")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 60))
        await until(lambda: b.lines("reached"))
        pid = b.dispatcher.workers[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await b.settled(p, 60)
        assert b.lines() == [str(offset) for offset in [*range(31), *range(30, 60)]]
        assert b.dispatcher.workers[0].restarts == 1


async def test_returns_from_an_older_assignment_move_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES) as b:
        (old,) = b.assign(("t", 0))
        b.feed(old, records(0, 10))
        await b.dispatcher.revoke([old], 20)
        done = old.ledger.committable
        (new,) = b.assign(("t", 0), start=done)
        b.feed(new, records(done, 20))
        await b.settled(new, done + 20)
        assert len(b.lines()) == done + 20


async def test_static_workers_keep_their_partitions(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {context.worker_id}")
    """
    async with bench(tmp_path, handler, workers=5, static=True) as b:
        partitions = b.assign(*(("t", number) for number in range(20)))
        for p in partitions:
            b.dispatcher.add(p, records(0, 20))
        b.dispatcher.dispatch()
        for p in partitions:
            await b.settled(p, 20)
        assert set(b.lines()) == {f"{number} {number // 4}" for number in range(20)}
        assert [w["partitions"] for w in worker_statuses(b.dispatcher)] == [
            "t/0-3",
            "t/4-7",
            "t/8-11",
            "t/12-15",
            "t/16-19",
        ]


async def test_what_waits_for_a_static_worker_stays_its_where_another_partition_comes(tmp_path: Path) -> None:
    handler = """
        def init_context(context):
            if exists("slow") and context.worker_id == 0:
                wait_for("go")

        def handler(context, event):
            write(f"{event.shard_id} {context.worker_id}")
    """
    async with bench(tmp_path, handler, workers=2, static=True) as b:
        _, waiting, _ = b.assign(("t", 1), ("t", 2), ("t", 3))
        (tmp_path / "slow").touch()
        kill_worker(b, 0)
        await until(lambda: not b.dispatcher.workers[0].is_ready)
        b.feed(waiting, records(0, 1))
        (other,) = b.assign(("t", 0))
        b.feed(other, records(0, 1))
        await until(lambda: b.lines() == ["0 1"])
        (tmp_path / "go").touch()
        await until(lambda: b.lines() == ["0 1", "2 0"])


async def test_a_process_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, WRITES) as b:
        (p,) = b.assign(("t", 0))
        refusals = iter([OSError(11, "Resource temporarily unavailable")])
        popen = subprocess.Popen

        def refuse_once(*arguments: object, **options: object) -> object:
            for refusal in refusals:
                raise refusal
            return popen(*arguments, **options)  # type: ignore[call-overload]

        monkeypatch.setattr(subprocess, "Popen", refuse_once)
        pid = b.dispatcher.workers[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not b.dispatcher.workers[0].is_ready)
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
