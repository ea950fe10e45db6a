"""What a worker's main thread is in: written by itself when it is asked, even from within C code."""

import faulthandler
import os
import re
import signal
from pathlib import Path

# Handlers may have uses of their own for SIGUSR1 and SIGUSR2.
_ASKS = signal.SIGRTMAX - 3
_MOST_BYTES = 1 << 16
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.+)')


def dump_stack_on_signal(fd: int) -> None:
    """In a worker: write there, when it is asked.

    The kernel asks the main thread. It writes of itself alone: the frames of another one, which may run
    meanwhile, can end before they are read, and that would be a segfault.
    """
    faulthandler.register(_ASKS, fd, all_threads=False)


def stop_dumping() -> None:
    """In a process that a worker has forked: the file is the worker's."""
    faulthandler.unregister(_ASKS)


class StackDump:
    """The processor's end: a file in memory, which its worker inherits."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("headrace-stacks")

    @staticmethod
    def ask(pid: int) -> None:
        """A worker, which is about to be killed: one that has just begun ends of it."""
        os.kill(pid, _ASKS)

    def take(self) -> str:
        """What it has written, the last call first. Closes the file."""
        try:
            return os.pread(self.fd, _MOST_BYTES, 0).decode(errors="replace").strip()
        finally:
            os.close(self.fd)


def place_in(said: str, folder: str) -> str:
    """`function, file:line` of the last call in `folder`, else of the last."""
    frames = _FRAME.findall(said)
    own = [frame for frame in frames if Path(frame[0]).is_relative_to(folder)]
    return next((f"{name}, {Path(file).name}:{line}" for file, line, name in (*own, *frames)), "")
