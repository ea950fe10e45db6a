"""Acks that a handler makes of the record that it is in: they wait in shared memory for the next frame."""

from pathlib import Path

import pytest
from ack_bench import ONLY
from worker_bench import bench, records, until

from headrace.runtime.dispatch.ack_router import AckRouter

PRELUDE = """
    import multiprocessing, nuclio
    def ack(context, event):
        return context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))
"""
SEES = """
    async def handler(context, event):
        write(event.offset)
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
        assert not p.awaiting_ack
        assert not q.awaiting_ack
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
        await until(lambda: not p.lane.in_flight_count and p.ledger.open_count == 10)
        assert p.awaiting_ack == set(range(0, 30, 3))


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
        assert p.checkpoint.offset == 5
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
        await until(lambda: len(b.lines()) == 3 and not p.lane.in_flight_count)
        b.dispatcher.sync_progress()
        assert p.awaiting_ack == {0, 1, 2}


@pytest.mark.full_but("return-async def", "sys.exit(0)-def")
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("end", ["sys.exit(0)", "return", "raise ValueError"])
async def test_a_fork_that_leaves_its_handler_ends_there_and_its_parent_goes_on(
    kind: str, end: str, tmp_path: Path
) -> None:
    handler = f"""
    {kind} handler(context, event):
        write(event.offset)
        if event.offset == 3:
            if not (child := os.fork()):
                {end}
            write(os.waitpid(child, 0)[1] != 0, "codes")
        acking = ack(context, event)
        {"await acking" if kind == "async def" else "asyncio.get_event_loop().run_until_complete(acking)"}
    """
    async with bench(tmp_path, PRELUDE + handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 20))
        await b.settled(p, 20)
        b.feed(p, records(20, 20))
        await b.settled(p, 40)
        assert b.dispatcher.workers[0].restarts == 0
    assert b.lines() == [str(offset) for offset in range(40)]
    assert b.lines("codes") == [str(end.startswith("raise"))]


async def test_each_ack_counts_once_however_often_it_is_seen(tmp_path: Path) -> None:
    handler = """
    async def handler(context, event):
        await ack(context, event)
        while event.offset == 4 and not exists("go"):
            write("goes on")
            await asyncio.sleep(0.005)
    """
    async with bench(tmp_path, PRELUDE + handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 6))
        await until(b.lines)
        for _ in range(5):
            b.dispatcher.sync_progress()
        (b.folder / "go").touch()
        await b.settled(p, 6)
        await until(lambda: not p.lane.in_flight_count)
        families = {family.name: family for family in b.metrics.registry.collect()}
        assert (
            sum(s.value for s in families["headrace_explicit_acks"].samples if s.name.endswith("_total")) == 6
        )


async def test_an_ack_reaches_another_triggers_commit_while_its_handler_goes_on(tmp_path: Path) -> None:
    handler = """
    async def handler(context, event):
        await context.platform.explicit_ack(nuclio.QualifiedOffset("u", 0, 0))
        write("acked")
        while not exists("go"):
            await asyncio.sleep(0.005)
    """
    router = AckRouter()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with (
        bench(tmp_path / "one", PRELUDE + handler, static=True, policy=ONLY, router=router) as one,
        bench(tmp_path / "two", PRELUDE + SEES, static=True, policy=ONLY, router=router) as two,
    ):
        (p,), (q,) = one.assign(("t", 0)), two.assign(("u", 0))
        two.feed(q, records(0, 1))
        await until(lambda: q.awaiting_ack)
        one.feed(p, records(0, 1))
        await until(one.lines)
        await two.dispatcher.revoke([q], 1)
        assert q.checkpoint.offset == 1
        (one.folder / "go").touch()
