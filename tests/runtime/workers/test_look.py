"""Looking at a worker, which settles nothing; and settling what it hasn't reported."""

from pathlib import Path

from worker_bench import bench, records, until


async def test_a_look_shows_the_record_that_runs_and_settles_nothing(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            if event.offset == 1:
                wait_for("go")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        (worker,) = b.dispatcher.workers
        assert not worker.running()
        p.on_fetched(records(0, 3))
        worker.sender.send(p.lane, p.lane.take(3, 1 << 20))  # one run: its progress is told at its end
        await until(lambda: b.lines() == ["0", "1"])
        (running,) = worker.running()
        assert (running.lane, running.record.offset) == (p.lane, 1)
        assert (p.ledger.committable, len(worker.in_flight)) == (0, 3)
        worker.sync_progress()
        assert (p.ledger.committable, len(worker.in_flight)) == (1, 2)
        assert worker.running() == [running]
        (tmp_path / "go").touch()
        await b.settled(p, 3)
        assert not worker.running()


async def test_nothing_is_seen_of_a_worker_that_was_stopped(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            wait_for("never")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await until(b.lines)
        (worker,) = b.dispatcher.workers
        await worker.stop(0)
        assert not worker.running()
        worker.sync_progress()
        assert p.lane.in_flight_count == 0
