"""Work that blocks before a server starts: in a thread, and over at once when nobody waits for it."""

import asyncio
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import ParamSpec, TypeVar

from headrace.runtime.processes import for_java

P = ParamSpec("P")
T = TypeVar("T")


class _Unwanted(Exception):  # noqa: N818  # no error: whoever waited for the work was cancelled
    """Ends a thread's work."""


class _Programs:
    """Those of one thread's work: asked for and ended in different threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unwanted = threading.Event()
        self._running: set[subprocess.Popen[str]] = set()

    @contextmanager
    def started(
        self, command: Sequence[str], cwd: Path | None, errors: int
    ) -> Iterator[subprocess.Popen[str]]:
        with self._lock:
            self.pause(0)
            program = subprocess.Popen(
                command,
                cwd=cwd,
                env=for_java(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                process_group=0,  # Ctrl-C in the terminal is for us, who end it
            )
            self._running.add(program)
        try:
            with program:
                yield program
        finally:
            with self._lock:
                self._running.discard(program)
        self.pause(0)

    def pause(self, seconds: float) -> None:
        if self._unwanted.wait(seconds):
            raise _Unwanted

    def end(self) -> None:
        with self._lock:
            self._unwanted.set()
            for program in self._running:
                program.kill()


_programs: ContextVar[_Programs] = ContextVar("programs")


async def run_in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns. Cancelled, it kills the programs that `work` waits for, and awaits its end."""
    programs = _Programs()
    reset = _programs.set(programs)
    try:  # the thread gets a copy of the context
        thread = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    finally:
        _programs.reset(reset)
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        programs.end()
        await asyncio.gather(thread, return_exceptions=True)
        raise


@contextmanager
def program(
    command: Sequence[str], *, cwd: Path | None = None, errors: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """A running program, its output in pipes; awaited at the end. Blocks. Raises OSError."""
    with _of_this_work().started(command, cwd, errors) as running:
        yield running


def run_program(
    command: Sequence[str], *, cwd: Path | None = None, seconds: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """A program to its end. Blocks. Raises OSError, and subprocess.TimeoutExpired after `seconds`."""
    with program(command, cwd=cwd) as running:
        try:
            out, errors = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
    return subprocess.CompletedProcess(command, running.returncode, out, errors)


def pause(seconds: float) -> None:
    """Sleep, as long as the work is wanted."""
    _of_this_work().pause(seconds)


def _of_this_work() -> _Programs:
    """Of a caller outside `in_thread`, nobody ends the programs before they do."""
    return _programs.get(None) or _Programs()
