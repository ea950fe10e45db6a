"""Processes that a handler starts by multiprocessing, without a fork: since Python 3.14 it forks no more."""

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from worker_bench import bench, kill_worker, records, until

METHODS = ["forkserver", pytest.param("spawn", marks=pytest.mark.full)]


@pytest.mark.parametrize("method", METHODS)
async def test_they_find_the_handlers_module_and_all_that_it_imports(tmp_path: Path, method: str) -> None:
    handler = f"""
        import multiprocessing
        import nuclio
        from concurrent.futures import ProcessPoolExecutor

        METHOD = multiprocessing.get_context({method!r})

        def square(number):
            return number * number

        def started():
            write("", "started")
            time.sleep(600)

        def handler(context, event):
            child = METHOD.Process(target=started)
            child.start()
            wait_for("started")
            child.terminate()
            child.join()
            with ProcessPoolExecutor(1, METHOD) as pool:
                write(f"{{child.exitcode}} {{sum(pool.map(square, range(20)))}}")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await b.settled(p, 1)
        assert not p.failed
        assert b.lines() == ["-15 2470"]


async def test_a_folder_of_the_functions_named_nuclio_stays_its_own(tmp_path: Path) -> None:
    (tmp_path / "nuclio").mkdir()
    (tmp_path / "nuclio" / "mine.py").write_text("NUMBER = 7")
    handler = """
        from nuclio import mine

        def handler(context, event):
            write(mine.NUMBER)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await b.settled(p, 1)
        assert b.lines() == ["7"]


async def test_an_async_handler_may_have_a_pool_that_nobody_closes(tmp_path: Path) -> None:
    handler = """
        from concurrent.futures import ProcessPoolExecutor

        def square(number):
            return number * number

        def init_context(context):
            context.user_data.pool = ProcessPoolExecutor(1)

        async def handler(context, event):
            loop = asyncio.get_running_loop()
            write(await loop.run_in_executor(context.user_data.pool, square, event.offset))
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 4))
        await b.settled(p, 4)
        assert b.lines() == ["0", "1", "4", "9"]


@pytest.mark.parametrize("method", METHODS)
async def test_they_end_with_a_worker_that_is_killed(tmp_path: Path, method: str) -> None:
    """The one that Python puts between, too."""
    handler = f"""
        import multiprocessing

        METHOD = multiprocessing.get_context({method!r})

        def starts():
            write(f"{{os.getpid()}} {{os.getppid()}}", "pids")
            time.sleep(600)

        def handler(context, event):
            if not exists("pids"):
                child = METHOD.Process(target=starts)
                child.start()
                child.join()
            write("again")
    """
    async with bench(tmp_path, handler) as b, asyncio.timeout(120):
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(lambda: b.lines("pids"))
        with ExitStack() as handles:
            pids = [int(pid) for pid in b.lines("pids")[0].split()]
            ends = [os.pidfd_open(pid) for pid in pids]
            for end in ends:
                handles.callback(os.close, end)
            kill_worker(b)
            for end in ends:
                await _readable(end)
        await b.settled(p, 1)
        assert b.lines() == ["again"]


async def _readable(descriptor: int) -> None:
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, came.set)
    await came.wait()
    loop.remove_reader(descriptor)
