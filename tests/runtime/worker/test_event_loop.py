"""Sync code of the user's finds a running event loop, as in Nuclio, and may run one all the same."""

from pathlib import Path

import pytest
from worker_bench import bench, records

from headrace.testing import run_handler


async def _lines(folder: Path, handler: str, count: int = 3) -> list[str]:
    """What `handler` has written once it has had so many records, which came as one run."""
    async with bench(folder, handler) as b:
        (p,) = b.assign(("t", 0))
        b.expect_quick_handlers()
        b.feed(p, records(0, count))
        await b.settled(p, count)
        assert not p.failed
        return b.lines()


@pytest.mark.parametrize("where", ["handler", "init_context"])
async def test_sync_code_may_use_the_running_loop(tmp_path: Path, where: str) -> None:
    handler = """
        async def note(text):
            write(text)

        def use():
            loop = asyncio.get_running_loop()
            assert loop.is_running() and loop is asyncio.get_event_loop()
            asyncio.create_task(note("task"))
            loop.call_later(0, write, "timer")

        def init_context(context):
            if WHERE == "init_context":
                use()

        def handler(context, event):
            if WHERE == "handler" and event.offset == 0:
                use()
            while event.offset == 2 and not exists("log"):
                raise ValueError("the task has not run")
    """
    assert "task" in await _lines(tmp_path, handler.replace("WHERE", repr(where)))


async def test_what_a_sync_handler_starts_goes_on_between_records(tmp_path: Path) -> None:
    handler = """
        async def note(offset):
            write(f"task {offset}")

        def handler(context, event):
            write(f"record {event.offset}")
            asyncio.create_task(note(event.offset))
    """
    turns = [f"{what} {offset}" for offset in range(3) for what in ("record", "task")]
    assert (await _lines(tmp_path, handler))[:5] == turns[:5]


async def test_a_timer_fires_between_the_records_of_a_run(tmp_path: Path) -> None:
    handler = """
        ticks = 0

        async def tick():
            global ticks
            while True:
                await asyncio.sleep(0)
                await asyncio.sleep(0.001)
                ticks += 1

        def init_context(context):
            context.user_data.ticking = asyncio.get_running_loop().create_task(tick())

        def handler(context, event):
            write(ticks)
            time.sleep(0.005)
    """
    ticks = [int(line) for line in await _lines(tmp_path, handler, 20)]
    assert ticks[-1] > ticks[0]


async def test_loops_that_sync_code_runs_leave_the_running_one_as_it_was(tmp_path: Path) -> None:
    handler = """
        async def answer():
            await asyncio.sleep(0)
            return 42

        def handler(context, event):
            loop = asyncio.get_event_loop()
            assert loop.run_until_complete(answer()) == 42
            assert asyncio.run(answer()) == 42
            other = asyncio.new_event_loop()
            assert other.run_until_complete(answer()) == 42
            other.close()
            with asyncio.Runner() as runner:
                assert runner.run(answer()) == 42
            assert asyncio.get_running_loop() is asyncio.get_event_loop() is loop
            write("ok")
    """
    assert await _lines(tmp_path, handler) == ["ok"] * 3


@pytest.mark.parametrize("running_event_loop", [True, False])
async def test_get_event_loop_has_the_workers_wherever_sync_code_asks(
    tmp_path: Path, running_event_loop: bool
) -> None:
    """Python 3.14 makes none any more where a thread has none."""
    handler = """
        LOOP = asyncio.get_event_loop()

        def init_context(context):
            assert asyncio.get_event_loop() is LOOP

        def handler(context, event):
            assert asyncio.get_event_loop() is LOOP
            asyncio.run(asyncio.sleep(0))
            assert asyncio.get_event_loop() is LOOP
            write(LOOP.run_until_complete(asyncio.sleep(0, "ok")))
    """
    async with bench(tmp_path, handler, running_event_loop=running_event_loop) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        assert b.lines() == ["ok"] * 2


async def test_an_async_handler_can_not_run_its_own_loop(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            for run in (asyncio.run, asyncio.get_event_loop().run_until_complete):
                coroutine = asyncio.sleep(0)
                try:
                    run(coroutine)
                except RuntimeError:
                    coroutine.close()
                    write("refused")
    """
    assert await _lines(tmp_path, handler, 1) == ["refused"] * 2


def test_a_handler_on_trial_finds_it_too() -> None:
    import asyncio

    said: list[str] = []

    async def say(text: str) -> None:
        said.append(text)

    def init_context(context: object) -> None:
        context.user_data.tasks = [asyncio.get_running_loop().create_task(say("init"))]  # type: ignore[attr-defined]  # the SDK's

    def handler(context: object, event: object) -> None:
        asyncio.run(say("run"))
        context.user_data.tasks.append(asyncio.create_task(say("task")))  # type: ignore[attr-defined]  # the SDK's

    assert run_handler(handler, [b"1"], init_context=init_context).failures == []
    assert sorted(said) == ["init", "run", "task"]
