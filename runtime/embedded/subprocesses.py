"""Blocking work before a server starts: in a thread, with programs that end once nobody waits for it."""

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


class _CancelledWork(Exception):  # noqa: N818  # no error: whoever waited for the work was cancelled
    """The end of a thread's work that nobody waits for any more."""


class _WorkPrograms:
    """The programs of one thread's work: started in that thread, and ended from the event loop's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._running: set[subprocess.Popen[str]] = set()

    @contextmanager
    def started(
        self, command: Sequence[str], cwd: Path | None, errors: int
    ) -> Iterator[subprocess.Popen[str]]:
        # Under the lock that `end` takes: no program can start after it has killed those that run.
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
        if self._cancelled.wait(seconds):
            raise _CancelledWork

    def end(self) -> None:
        with self._lock:
            self._cancelled.set()
            for program in self._running:
                program.kill()


_programs: ContextVar[_WorkPrograms] = ContextVar("programs")


async def run_in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread; return its result.

    Cancelled, this kills the programs that `work` waits for, and awaits its end.
    """
    programs = _WorkPrograms()
    reset = _programs.set(programs)
    try:
        # The thread gets a copy of the context, so `program` finds there which work it belongs to.
        thread = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    finally:
        _programs.reset(reset)
    try:
        # A thread can't be cancelled, only its programs: it is awaited even so, as it writes into the folder.
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        programs.end()
        await asyncio.gather(thread, return_exceptions=True)
        raise


@contextmanager
def program(
    command: Sequence[str], *, cwd: Path | None = None, errors: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """Run a program, its output in pipes, and wait for its end. Blocks. Raises OSError."""
    with _of_this_work().started(command, cwd, errors) as running:
        yield running


def run_program(
    command: Sequence[str], *, cwd: Path | None = None, seconds: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end. Blocks. Raises OSError, and subprocess.TimeoutExpired after `seconds`."""
    with program(command, cwd=cwd) as running:
        try:
            out, errors = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
    return subprocess.CompletedProcess(command, running.returncode, out, errors)


def pause(seconds: float) -> None:
    """Sleep; end at once where nobody waits for the work any more."""
    _of_this_work().pause(seconds)


def _of_this_work() -> _WorkPrograms:
    """Return the programs of this thread's work; outside `run_in_thread`, new ones that nobody ends early."""
    return _programs.get(None) or _WorkPrograms()
