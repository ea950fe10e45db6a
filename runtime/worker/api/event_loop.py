"""The event loop of a worker: it counts as running in sync code of the user's, and turns between records."""

import asyncio
import functools
import select
import selectors
import threading
import time
from asyncio.events import _get_running_loop, _set_running_loop  # for loops of others, as their docs say
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from threading import Lock
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from headrace.runtime.worker.api.record_id import CURRENT_RECORD_ID, RecordId

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# How often timers and connections are polled between quick records: a poll costs as much as ten of those.
_POLL_SECONDS = 0.001
_MAX_SELECT_FD = 1024  # descriptors are below that, for select


class _Here(threading.local):
    loop: "WorkerEventLoop | None" = None
    """The loop that sync code of the user's holds in this thread."""


_HERE = _Here()


class WorkerEventLoop(asyncio.SelectorEventLoop):
    """An event loop that counts as running while sync code holds it, as in Nuclio, though it doesn't turn.

    So `create_task`, `call_later` and `get_running_loop` work there. What sync code has started goes on
    between records, and while the worker idles. And it may run loops, this one too, which Nuclio refuses.
    """

    is_held = False
    """Whether sync code of the user's has its thread: it doesn't turn, and may count as running."""

    def __init__(
        self, selector: selectors.BaseSelector | None = None, *, runs_for_sync_code: bool = True
    ) -> None:
        """Without `runs_for_sync_code` no loop counts as running in sync code: some libraries want it so."""
        super().__init__(selector or _exact_selector())
        self._runs_for_sync_code = runs_for_sync_code
        _let_sync_code_run_loops()
        self.due: deque[Any] = self._ready  # type: ignore[attr-defined]  # asyncio's own
        """Callbacks that the next turn runs. Always the same deque: each record pays only a test of it."""
        self.waits = False
        """Whether timers or connections waited for a later turn at the last one."""
        self._current_record: Callable[[], RecordId | None] = _nothing
        self._polled_at = 0.0
        self._bell = _locked()
        self._bells: list[Lock] = []  # it, while the loop's thread waits for it
        self._held, self._released = _Hold(self, True), _Hold(self, False)

    def attribute_tasks_to(self, current_record: Callable[[], RecordId | None]) -> None:
        """Have tasks that handlers create belong to the record that `current_record` returns then."""
        self._current_record = current_record

    def held(self) -> AbstractContextManager[None]:
        """Return a block that calls sync code of the user's, in this loop's thread."""
        return self._held

    def released(self) -> AbstractContextManager[None]:
        """Return a block, for inside a held one, that runs a loop: this or another one."""
        return self._released

    def hold(self, is_held: bool) -> None:
        """Hold the loop from now on, or release it. The loop's thread alone may say so."""
        self.is_held = is_held
        _HERE.loop = self if is_held else None
        if self._runs_for_sync_code:
            _set_running_loop(self if is_held else None)

    def is_running(self) -> bool:
        """Whether the loop turns, or counts as if it did."""
        return (self.is_held and self._runs_for_sync_code) or super().is_running()

    def abandon(self) -> None:
        """Give up signals, in a process that a handler has forked: they are its parent's to get."""
        for signum in list(self._signal_handlers):  # type: ignore[attr-defined]  # asyncio's own
            self.remove_signal_handler(signum)

    def create_task(self, coro: Any, **options: Any) -> Any:
        """Create a task as asyncio does; what it logs belongs to the record whose handler has created it."""
        if (
            CURRENT_RECORD_ID.get() is None
            and (current := self._current_record()) is not None
            and options.get("context") is None
        ):
            options["context"] = copy_context()
            options["context"].run(CURRENT_RECORD_ID.set, current)
        return super().create_task(coro, **options)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback as asyncio does; where sync code asks for it, the next record looks."""
        if self.is_held:
            self.call_soon(_nothing)
        return super().call_at(when, callback, *args, context=context)

    def wait(self) -> bool:
        """Wait for other threads; False where the loop has to turn instead.

        It has to where something is due, or may become so by a timer, a connection or a signal. Waiting is
        cheaper than a turn, whose selector is woken through a pipe.
        """
        if self._waits_for_others() or self._signal_handlers:  # type: ignore[attr-defined]
            return False
        self._bells.append(self._bell)
        # What comes from now on rings; and where that has been first, it is to be looked at first.
        is_due = bool(self.due) and self.ring()
        try:
            self._bell.acquire()
        except BaseException:  # a signal handler of the user's may raise
            self._bells.clear()
            self._bell = _locked()
            raise
        return not is_due

    def ring(self) -> bool:
        """End `wait`, from any thread; False where nobody waits."""
        try:
            self._bells.pop().release()
        except IndexError:
            return False
        return True

    def _write_to_self(self) -> None:
        """Wake the loop, as asyncio asks for: something is due by another thread."""
        if not self.ring():
            super()._write_to_self()  # type: ignore[misc]

    def turn(self) -> bool:
        """Run once what is due. Return whether timers or connections wait for a later turn."""
        now = time.monotonic()
        if self.due or now - self._polled_at > _POLL_SECONDS:
            self._polled_at = now
            self.call_soon(self.stop)
            self.turn_until_stopped()
        return self.waits

    def turn_until_stopped(self) -> None:
        """Run until `stop`, and see what is left waiting."""
        self.run_forever()
        self.waits = self._waits_for_others()

    def _waits_for_others(self) -> bool:
        """Whether timers or connections wait."""
        # asyncio's own, by which other threads wake the loop: always in the selector.
        own_pipe = 1
        return bool(self._scheduled) or len(self._selector.get_map()) > own_pipe  # type: ignore[attr-defined]


def _exact_selector() -> selectors.BaseSelector | None:
    """Return a selector whose waits aren't rounded up to a millisecond, as epoll's are.

    None where asyncio's own isn't epoll.
    """
    if not hasattr(selectors, "EpollSelector"):
        return None

    class ExactSelector(selectors.EpollSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and timeout > 0 and self.fileno() < _MAX_SELECT_FD:
                select.select([self], (), (), timeout)
                timeout = 0
            return super().select(timeout)

    return ExactSelector()


class _Hold:
    """A block in which the loop is held, or isn't. Each run enters one, so it is no generator."""

    def __init__(self, loop: WorkerEventLoop, is_held: bool) -> None:
        self._loop, self._is_held = loop, is_held

    def __enter__(self) -> None:
        self._loop.hold(self._is_held)

    def __exit__(self, *_: object) -> None:
        self._loop.hold(not self._is_held)


def _locked() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock


def _nothing() -> None:
    """Do nothing: makes a turn due, or stands for no record."""


def _let_sync_code_run_loops() -> None:
    """Let sync code run loops in this process, from now on.

    asyncio refuses to where a loop is running, even one that is held.
    """
    if hasattr(asyncio.run, "__wrapped__"):
        return
    asyncio.run = asyncio.runners.run = _releasing(asyncio.run)
    asyncio.Runner.run = _releasing(asyncio.Runner.run)  # type: ignore[method-assign]
    asyncio.Runner.close = _giving_back(asyncio.Runner.close)  # type: ignore[method-assign]
    asyncio.BaseEventLoop.run_forever = _releasing(asyncio.BaseEventLoop.run_forever)  # type: ignore[method-assign]
    asyncio.BaseEventLoop.run_until_complete = _releasing(asyncio.BaseEventLoop.run_until_complete)  # type: ignore[method-assign]


def _releasing(function: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        running = _get_running_loop()
        if not (isinstance(running, WorkerEventLoop) and running.is_held):
            return function(*args, **kwargs)
        with running.released():
            return function(*args, **kwargs)

    return call


def _giving_back(close: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(close)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        closed = close(*args, **kwargs)
        if _HERE.loop is not None:  # else the thread has no loop any more for get_event_loop
            asyncio.set_event_loop(_HERE.loop)
        return closed

    return call
