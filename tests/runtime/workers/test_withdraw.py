"""Lanes that nobody waits for any more, taken back from a real worker that is not killed for it."""

from pathlib import Path

import pytest
from lone_worker import HeardLane, lines, lone_worker
from worker_bench import until

ASYNC = """
    async def handler(context, event):
        write(f"{event.shard_id} {event.offset}")
        while event.shard_id == 0 and not exists("go"):
            await asyncio.sleep(0.005)
"""
SYNC = """
    def handler(context, event):
        write(f"{event.shard_id} {event.offset}")
        if event.shard_id == 0:
            wait_for("go")
"""


@pytest.mark.parametrize("handler", [ASYNC, SYNC], ids=["async", "sync"])
async def test_what_has_not_started_comes_back(tmp_path: Path, handler: str) -> None:
    async with lone_worker(tmp_path, handler) as (worker, heard):
        running, waiting = HeardLane(heard, b"", number=0), HeardLane(heard, b"", b"", number=1)
        worker.sender.send(running, running.take(1))
        worker.sender.send(waiting, waiting.take(2))
        await until(lambda: lines(tmp_path) == ["0 0"])
        assert worker.withdraw(waiting) == "recalled"
        await until(lambda: not waiting.in_flight_count)
        assert heard.told == [("returned", 1, [0, 1])]
        assert worker.withdraw(waiting) == "not here"
        (tmp_path / "go").touch()
        await until(lambda: not running.in_flight_count)
        assert lines(tmp_path) == ["0 0"]
        assert worker.restarts == 0


async def test_what_runs_is_cancelled_where_its_handler_is_async(tmp_path: Path) -> None:
    async with lone_worker(tmp_path, ASYNC, wants_replies=True) as (worker, heard):
        lane, other = HeardLane(heard, b"", b"", number=0), HeardLane(heard, b"", number=1)
        worker.sender.send(lane, lane.take(2))
        worker.sender.send(other, other.take(1))
        await until(lambda: lines(tmp_path) == ["0 0"])
        assert worker.withdraw(lane) == "cancelled"
        await until(lambda: other.ledger.committable == 1)
        failed = next(told for told in heard.told if told[0] == "failed")
        assert failed[:3] == ("failed", 0, [0])
        assert failed[3].startswith("nobody waits for it any more and was cancelled:\n")
        assert ("returned", 0, [1]) in heard.told
        assert list(heard.replies) == [(1, 0)]
        assert lines(tmp_path) == ["0 0", "1 0"]
        assert worker.restarts == 0


async def test_a_sync_handler_runs_on_and_its_lane_says_so(tmp_path: Path) -> None:
    async with lone_worker(tmp_path, SYNC, wants_replies=True) as (worker, heard):
        lane = HeardLane(heard, b"", b"", number=0)
        worker.sender.send(lane, lane.take(2))
        await until(lambda: lines(tmp_path) == ["0 0"])
        assert worker.withdraw(lane) == "runs on"
        await until(lambda: ("returned", 0, [1]) in heard.told)
        (tmp_path / "go").touch()
        await until(lambda: not lane.in_flight_count)
        assert [told[0] for told in heard.told] == ["returned", "replied", "handled"]
        assert worker.restarts == 0


async def test_a_handler_that_does_not_let_itself_be_cancelled_is_not_killed(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            while not exists("go"):
                try:
                    write("in")
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    write("cancelled", "seen")
                    wait_for("go")
    """
    async with lone_worker(tmp_path, handler) as (worker, heard):
        lane = HeardLane(heard, b"")
        worker.sender.send(lane, lane.take(1))
        await until(lambda: lines(tmp_path))
        assert worker.withdraw(lane) == "cancelled"
        await until(lambda: lines(tmp_path, "seen"))
        assert worker.withdraw(lane) == "cancelled"  # again: nothing more
        (tmp_path / "go").touch()
        await until(lambda: not lane.in_flight_count)
        assert lines(tmp_path, "seen") == ["cancelled"]
        assert heard.told[0][0] == "failed"
        assert worker.restarts == 0


async def test_a_batch_is_not_cancelled_for_one_of_its_lanes(tmp_path: Path) -> None:
    handler = """
        async def handler(context, events):
            write(len(events))
            while not exists("go"):
                await asyncio.sleep(0.005)
    """
    async with lone_worker(tmp_path, handler, is_batch=True) as (worker, heard):
        lane, other = HeardLane(heard, b"", number=0), HeardLane(heard, b"", number=1)
        worker.sender.send_batch([(lane, lane.take(1)), (other, other.take(1))])
        await until(lambda: lines(tmp_path) == ["2"])
        assert worker.withdraw(other) == "runs on"
        (tmp_path / "go").touch()
        await until(lambda: not other.in_flight_count)
        assert heard.told == [("handled", 0, [0]), ("handled", 1, [0])]


async def test_a_lane_that_was_never_here_is_not_here(tmp_path: Path) -> None:
    async with lone_worker(tmp_path, SYNC) as (worker, heard):
        lane = HeardLane(heard, b"")
        assert worker.withdraw(lane) == "not here"
        assert not lane.is_recalled
        assert heard.told == []
