"""`runningEventLoop: false`: sync code finds no running loop, for libraries that refuse one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from worker_bench import bench, records

from headrace.testing import run_handler


def _running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("running_event_loop", [True, False])
def test_a_sync_handler_and_its_init_context_find_what_the_setting_says(running_event_loop: bool) -> None:
    found: list[bool] = []

    def init_context(_: Any) -> None:
        found.append(_running())

    def handler(_: Any, _event: Any) -> None:
        found.append(_running())

    run = run_handler(handler, [b"1", b"2"], init_context=init_context, running_event_loop=running_event_loop)
    assert run.failures == []
    assert found == [running_event_loop] * 3


@pytest.mark.parametrize("is_batch", [True, False])
def test_without_one_loops_run_and_what_is_started_goes_on(is_batch: bool) -> None:
    seen: list[str] = []
    tasks: list[asyncio.Task[str]] = []

    async def note(text: str) -> str:
        await asyncio.sleep(0)
        seen.append(text)
        return text

    def handler(_: Any, _given: Any) -> Any:
        loop = asyncio.get_event_loop()
        tasks.append(loop.create_task(note("task")))
        loop.call_later(0, seen.append, "timer")
        assert not loop.is_running()
        asyncio.run(note("another loop"))
        loop.run_until_complete(note("its own loop"))
        assert not _running()
        return note("returned")

    run = run_handler(handler, [b"1"], is_batch=is_batch, running_event_loop=False)
    assert run.failures == []
    assert sorted(seen) == ["another loop", "its own loop", "returned", "task", "timer"]


@pytest.mark.parametrize("begins", ["asyncio.run", "Runner"])
def test_after_a_loop_of_its_own_get_event_loop_has_the_workers(begins: str) -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    def handler(_: Any, _event: Any) -> None:
        if begins == "asyncio.run":
            asyncio.run(asyncio.sleep(0))
        else:
            with asyncio.Runner() as runner:
                runner.run(asyncio.sleep(0))
        loops.add(asyncio.get_event_loop())

    run = run_handler(handler, [b"1", b"2"], init_context=lambda _: handler(_, _), running_event_loop=False)
    assert run.failures == []
    assert len(loops) == 1


def test_an_async_handler_has_a_running_loop_all_the_same() -> None:
    found: list[bool] = []

    async def handler(_: Any, _event: Any) -> None:
        found.append(_running())

    run_handler(handler, [b"1"], running_event_loop=False)
    assert found == [True]


async def test_a_timer_fires_between_the_records_of_a_run(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            if event.offset == 0:
                asyncio.get_event_loop().call_later(0, write, "timer")
            elif not exists("log"):
                raise ValueError("it has not fired")
    """
    async with bench(tmp_path, handler, running_event_loop=False) as b:
        (p,) = b.assign(("t", 0))
        b.expect_quick_handlers()
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert b.lines() == ["timer"]
