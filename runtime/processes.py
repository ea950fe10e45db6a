"""How child processes end: not after their parent, not without their children, and not unheard."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when the thread that started it is gone.

    Holds however the parent dies, and however deep in a C call this process is. Linux only: elsewhere it does
    nothing, and the end of the socket has to do. A process that has no socket is told who its parent is: that
    one may have died before anybody could ask.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = parent or os.getppid()
    # It takes this process alone: what a handler has started goes when the link thread sees the socket's end.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before we asked


def die() -> NoReturn:
    """End this process, a worker, and whatever the handler started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def describe_exit(code: int) -> str:
    """`exit code 1`, or `signal SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal: most have no name
        return f"signal {-code}"


async def until_ended(process: "subprocess.Popen[bytes]") -> None:
    """Wait for its end as an event, on whatever loop runs. It still has to be reaped."""
    if process.poll() is not None:
        return
    handle, ended = os.pidfd_open(process.pid), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
