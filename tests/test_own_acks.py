"""Acks that a handler makes of the record that it is in: they wait in shared memory for the next frame."""

from pathlib import Path

import pytest
from test_acks import ONLY
from worker_bench import bench, records, until

PRELUDE = """
    import multiprocessing, nuclio
    def ack(context, event):
        return context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))
"""
EACH = """
    async def handler(context, event):
        write(event.offset)
        await ack(context, event)
"""


async def test_each_record_of_a_run_may_be_acked_in_turn(tmp_path: Path) -> None:
    async with bench(tmp_path, PRELUDE + EACH, workers=2, static=True, policy=ONLY) as b:
        p, q = b.assign(("t", 0), ("t", 1))
        for first in range(0, 200, 50):
            b.feed(p, records(first, 50))
            b.feed(q, records(first, 50))
        await b.settled(p, 200)
        await b.settled(q, 200)
        assert not p.unacked
        assert not q.unacked
    assert sorted(map(int, b.lines())) == sorted([*range(200), *range(200)])


async def test_a_handler_may_ack_some_of_a_run(tmp_path: Path) -> None:
    handler = """
    async def handler(context, event):
        if event.offset % 3:
            await ack(context, event)
    """
    async with bench(tmp_path, PRELUDE + handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 30))
        await until(lambda: not p.in_flight and p.ledger.open_count == 10)
        assert p.unacked == set(range(0, 30, 3))


async def test_a_commit_finds_the_ack_of_a_record_whose_handler_goes_on(tmp_path: Path) -> None:
    handler = """
    async def handler(context, event):
        await ack(context, event)
        if event.offset == 4:
            write("goes on")
            while not exists("go"):
                await asyncio.sleep(0.005)
    """
    async with bench(tmp_path, PRELUDE + handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 6))
        await until(b.lines)
        b.dispatcher.sync_progress()
        assert p.commitment.offset == 5
        b.dispatcher.sync_progress()  # it is there still, and harms nothing
        (b.folder / "go").touch()
        await b.settled(p, 6)


async def test_what_was_acked_before_its_worker_died_does_not_come_again(tmp_path: Path) -> None:
    handler = """
    async def handler(context, event):
        write(event.offset)
        await ack(context, event)
        if event.offset == 7:
            os.kill(os.getpid(), signal.SIGKILL)
    """
    async with bench(tmp_path, PRELUDE + handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 20))
        await b.settled(p, 20)
    assert b.lines() == [str(offset) for offset in range(20)]


async def test_an_ack_goes_ahead_of_the_failure_of_its_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
    async def handler(context, event):
        write(event.offset)
        await ack(context, event)
        if event.offset == 7:
            raise ValueError("too late")
    """
    async with bench(tmp_path, PRELUDE + handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 20))
        await b.settled(p, 20)
    assert b.lines() == [str(offset) for offset in range(20)]
    assert "too late" in caplog.text


async def test_what_a_handler_forks_does_not_ack_for_it(tmp_path: Path) -> None:
    handler = """
    import asyncio
    def handler(context, event):
        if event.offset == 1:
            act = lambda: asyncio.run(ack(context, event))
            child = multiprocessing.get_context("fork").Process(target=act)
            child.start()
            child.join()
        write(event.offset)
    """
    async with bench(tmp_path, PRELUDE + handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await until(lambda: len(b.lines()) == 3 and not p.in_flight)
        b.dispatcher.sync_progress()
        assert p.unacked == {0, 1, 2}
