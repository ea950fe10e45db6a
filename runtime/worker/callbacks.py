"""The user's drain and termination callbacks, which run while handlers run, in a worker process."""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("headrace.callback")

Callback = Callable[[], Any]

# How long the event loop may take to get to a callback before a thread does it: longer than a loop that turns
# needs, short enough that a handler that computes is not waited for.
_LOOP_TIMEOUT_SECONDS = 0.05


class Callbacks:
    """Runs a callback on the main thread's event loop if that turns, else in a thread of its own.

    A sync handler holds the loop for as long as it runs. An async callback gets a loop of its own then. One
    callback runs at a time; what it raises is logged, and changes nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, is_loop_held: Callable[[], bool]) -> None:
        """`is_loop_held` says, from any thread, whether the loop is known not to turn: no use in waiting."""
        self._loop = loop
        self._is_loop_held = is_loop_held
        self._running: set[threading.Event] = set()

    def call(self, name: str, callback: Callback | None) -> None:
        """Start a callback, and return at once (any thread)."""
        if callback is None:
            return
        done = threading.Event()
        self._running.add(done)
        # Not in the link thread, which calls this: a slow callback would keep recalls from being read.
        threading.Thread(target=self._run, args=(name, callback, done), name=name, daemon=True).start()

    def wait(self) -> None:
        """Wait until those that have started are done, with the loop turning for them (main thread)."""
        while pending := [done for done in self._running if not done.is_set()]:
            self._loop.run_until_complete(asyncio.to_thread(pending[0].wait))

    def _run(self, name: str, callback: Callback, done: threading.Event) -> None:
        # Whoever takes it runs the callback, the loop or this thread: never both.
        claim = threading.Lock()
        has_begun = threading.Event()

        def on_loop() -> None:
            if claim.acquire(blocking=False):
                has_begun.set()
                self._loop.create_task(_call(name, callback)).add_done_callback(lambda _: done.set())

        self._loop.call_soon_threadsafe(on_loop)
        timeout_seconds = 0.0 if self._is_loop_held() else _LOOP_TIMEOUT_SECONDS
        if not has_begun.wait(timeout_seconds) and claim.acquire(blocking=False):
            asyncio.run(_call(name, callback))
            done.set()
        done.wait()
        self._running.discard(done)


async def _call(name: str, callback: Callback) -> None:
    try:
        result = callback()
        if inspect.isawaitable(result):
            await result
    except BaseException:  # user code may raise anything
        logger.exception("the %s callback raised; what it had still to do is not done", name)
