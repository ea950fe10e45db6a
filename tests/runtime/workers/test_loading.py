"""A worker that dies before its handler is loaded: whose fault that is, and what comes of it."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from lone_worker import Heard, lone_worker
from worker_bench import bench, records

from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.process import WorkerProcess

KILLED_ONCE = """
    if not exists("loading"):
        write("", "loading")
        os.kill(os.getpid(), signal.{signal})

    def handler(context, event):
        write(event.offset)
"""


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSEGV"])
async def test_a_worker_that_a_signal_ends_while_it_loads_is_started_again(
    tmp_path: Path, signal: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, KILLED_ONCE.format(signal=signal), workers=2) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert b.lines() == ["0", "1", "2"]
        assert f"it died while loading the handler (signal {signal}); next try in 0.1 s" in caplog.text


async def test_a_worker_that_says_so_cannot_be_loaded_whoever_died_before(tmp_path: Path) -> None:
    handler = """
        if not exists("loading"):
            write("", "loading")
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("no database")
    """
    with pytest.raises(HandlerLoadError, match="no database"):
        async with lone_worker(tmp_path, handler):
            pass


async def test_a_stop_ends_a_worker_that_never_loads(tmp_path: Path) -> None:
    handler = 'write("")\nos.kill(os.getpid(), signal.SIGKILL)'
    starting = asyncio.create_task(lone_worker(tmp_path, handler).__aenter__())
    while not (tmp_path / "log").exists() or len((tmp_path / "log").read_text()) < 3:
        assert not starting.done()
        await asyncio.sleep(0.005)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_a_machine_without_room_for_a_process_is_asked_again(tmp_path: Path) -> None:
    (tmp_path / "function_code.py").write_text("def handler(context, event): ...")
    lease, refusals = Lease.create(1), [errno.EAGAIN, errno.ENOMEM]

    def spawn(index: int) -> WorkerProcess:
        if refusals:
            raise OSError(refusals.pop(), "no room")
        about = WorkerStart(str(tmp_path), "function_code", "handler", index, "test", "t")
        return WorkerProcess(about, os.environ, lease)

    worker = WorkerHandle(0, spawn, Heard())
    await worker.start()
    assert worker.is_ready
    await worker.stop(0)
