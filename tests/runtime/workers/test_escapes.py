"""What a handler starts ends with its worker, wherever it went: other groups, sessions, parents."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from processes import is_running
from replica import lines, wait_until
from root import ROOT
from worker_bench import bench, kill_worker, records, until

LEAVES_GROUP = """
    def handler(context, event):
        if not exists("log"):
            os.setpgid(0, os.getppid() if len(sys.argv) < 2 else os.getpgid(os.getppid()))
            write(os.getpid())
            time.sleep(600)
"""
STARTS = """
    import subprocess

    def handler(context, event):
        if not exists("log"):
            child = subprocess.Popen({command}, start_new_session={session})
            write(child.pid)
            {then}
"""
DAEMON = (
    '["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $! > " + str(FOLDER / "daemon") + "; sleep 600"]'
)


async def test_a_worker_that_has_left_its_process_group_is_killed(tmp_path: Path) -> None:
    async with bench(tmp_path, LEAVES_GROUP) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(b.lines)
        b.dispatcher.workers[0].kill()
        await b.settled(p, 1)
        assert not is_running(int(b.lines()[0]))


@pytest.mark.parametrize("then", ["time.sleep(600)", "os.kill(os.getpid(), signal.SIGSEGV)"])
async def test_what_has_a_session_of_its_own_ends_with_its_worker(tmp_path: Path, then: str) -> None:
    handler = STARTS.format(command='["sleep", "600"]', session=True, then=then)
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(b.lines)
        if "sleep" in then:
            kill_worker(b)
        await b.settled(p, 1)
        assert not is_running(int(b.lines()[0]))  # gone before its record goes elsewhere


async def test_a_daemon_whose_parent_is_gone_ends_with_its_worker(tmp_path: Path) -> None:
    async with bench(tmp_path, STARTS.format(command=DAEMON, session=True, then="time.sleep(600)")) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(
            lambda: b.lines() and (tmp_path / "daemon").exists() and (tmp_path / "daemon").read_text()
        )
        b.dispatcher.workers[0].kill()
        await b.settled(p, 1)
        assert not is_running(int((tmp_path / "daemon").read_text()))


PROCESSOR = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {support!r})
from worker_bench import bench, records
from headrace.runtime.workers.fence import Fence

HANDLER = {handler!r}

async def main():
    async with bench(Path(sys.argv[1]), HANDLER) as b:
        Fence(b.dispatcher.lease).start()
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("session", [False, True], ids=["in the group", "in a session"])
def test_what_a_handler_has_started_never_outlives_a_killed_processor(tmp_path: Path, session: bool) -> None:
    handler = STARTS.format(command='["sleep", "600"]', session=session, then="time.sleep(600)")
    script = PROCESSOR.format(support=str(ROOT / "tests" / "support"), handler=textwrap.dedent(handler))
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        with subprocess.Popen([sys.executable, "-P", "-c", script, str(folder)]) as processor:
            wait_until(lambda folder=folder: lines(folder))  # type: ignore[misc]  # of a default
            wait_until(lambda pid=processor.pid: has_fence(pid))  # type: ignore[misc]  # of a default
            child = int(lines(folder)[0])
            assert is_running(child)
            processor.kill()
        try:
            wait_until(lambda child=child: not is_running(child), 20)  # type: ignore[misc]  # of a default
        finally:
            if is_running(child):
                os.kill(child, signal.SIGKILL)


def has_fence(pid: int) -> bool:
    """Whether its fence has begun: it ignores SIGTERM by then."""
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        if b"fence_main" in Path(f"/proc/{child}/cmdline").read_bytes():
            ignored = next(
                line for line in Path(f"/proc/{child}/status").read_text().splitlines() if "SigIgn" in line
            )
            return bool(int(ignored.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False
