"""How a child process ends: not after its parent, and not without its own children."""

import ctypes
import os
import signal
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
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before we asked


def die() -> NoReturn:
    """End this process, a worker, and whatever the handler started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
