"""What a worker's threads are in: written by itself when it is asked, even from within C code."""

import faulthandler
import os
import re
import signal
from pathlib import Path

# Handlers may have uses of their own for SIGUSR1 and SIGUSR2.
_ASKS = signal.SIGRTMAX - 3
_MOST_BYTES = 1 << 16
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.+)')
_ASKED = "Current thread"


def answer_to(fd: int) -> None:
    """In a worker: write there, when it is asked."""
    faulthandler.register(_ASKS, fd, all_threads=True)


class Stacks:
    """The processor's end: a file in memory, which its worker inherits."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("headrace-stacks")

    @staticmethod
    def ask(pid: int) -> None:
        """A worker, which is about to be killed: one that has just begun ends of it."""
        os.kill(pid, _ASKS)

    def take(self) -> str:
        """What it has written, the last call of each thread first. Closes the file."""
        try:
            return os.pread(self.fd, _MOST_BYTES, 0).decode(errors="replace").strip()
        finally:
            os.close(self.fd)


def place_in(said: str, folder: str) -> str:
    """`function, file:line` in the thread that was asked: of the last call in `folder`, else of the last."""
    frames = _FRAME.findall(said[said.find(_ASKED) :])
    own = [frame for frame in frames if Path(frame[0]).is_relative_to(folder)]
    return next((f"{name}, {Path(file).name}:{line}" for file, line, name in (*own, *frames)), "")
