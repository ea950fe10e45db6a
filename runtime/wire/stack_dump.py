"""Stacks of workers' main threads, written by themselves on a signal: even from within C code."""

import faulthandler
import os
import re
import signal
from pathlib import Path

# Handlers may have uses of their own for SIGUSR1 and SIGUSR2.
_SIGNAL = signal.SIGRTMAX - 3
_MAX_BYTES = 1 << 16
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.+)')


def dump_stack_on_signal(fd: int) -> None:
    """Have this process, a worker, write its stack to `fd` when its processor asks for that.

    The kernel hands the signal to the main thread, which writes its own stack alone: the frames of another
    thread, which may run meanwhile, can end before they are read, and that would be a segfault.
    """
    # In C, without the interpreter: it works while a C call holds that.
    faulthandler.register(_SIGNAL, fd, all_threads=False)


def stop_dumping() -> None:
    """Have this process, which a worker has forked, write nothing: the file is the worker's."""
    faulthandler.unregister(_SIGNAL)


class StackDump:
    """A file in memory for the stack of one worker, which inherits it. The processor's end."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("headrace-stacks")

    @staticmethod
    def request(pid: int) -> None:
        """Have a worker write its stack, which is about to be killed: of the signal, if it has just begun."""
        os.kill(pid, _SIGNAL)

    def take(self) -> str:
        """Return what the worker has written, the last call first, and close the file."""
        try:
            return os.pread(self.fd, _MAX_BYTES, 0).decode(errors="replace").strip()
        finally:
            os.close(self.fd)


def place_in(stack: str, folder: str) -> str:
    """Return `function, file:line` of the last call in `folder`, else of the last one; empty for no stack."""
    frames = _FRAME.findall(stack)
    # The deepest call may be in a library; the handler's own code is what its author knows.
    own = [frame for frame in frames if Path(frame[0]).is_relative_to(folder)]
    return next((f"{name}, {Path(file).name}:{line}" for file, line, name in (*own, *frames)), "")
