"""An event loop whose time is reckoned: where nothing is ready, it jumps to the next timer."""

import asyncio
import selectors
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from headrace.runtime.wire import lease
from headrace.runtime.worker.api.event_loop import WorkerEventLoop

T = TypeVar("T")

_BEGIN_SECONDS = 1000.0  # not 0: what has never happened must lie long ago
_TURN_SECONDS = 1e-6  # what runs takes some time: a clock that stands still is waited for in circles
_MAX_TURNS = 1_000_000  # of the loop: more is a circle, not a simulation


class StandstillError(Exception):
    """Somebody waits, and nothing is left that could happen."""


class _NoFiles(selectors.SelectSelector):
    """Nothing is ever ready to be read: what would be waited for passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = _BEGIN_SECONDS
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        self._turns += 1
        if timeout is None or self._turns > _MAX_TURNS:
            raise StandstillError(f"after {self._turns} turns, at {self.now:.3f} s")
        self.now += max(timeout, 0) + _TURN_SECONDS
        return []


class VirtualLoop(WorkerEventLoop):
    """Its time, in seconds, is that of the `time` module while `in_virtual_time` runs."""

    def __init__(self) -> None:
        self._files = _NoFiles()
        super().__init__(self._files)

    def time(self) -> float:
        return self._files.now

    def _write_to_self(self) -> None:
        """There is no other thread."""


@contextmanager
def _clock(loop: VirtualLoop) -> Iterator[None]:
    def now_ns() -> int:
        return int(loop.time() * 1e9)

    clocks: dict[str, Any] = {
        "monotonic": loop.time,
        "perf_counter": loop.time,
        "monotonic_ns": now_ns,
        "perf_counter_ns": now_ns,
    }
    with ExitStack() as patches:
        patches.enter_context(patch.multiple(time, **clocks))
        for module in [found for found in sys.modules.values() if vars(found).get("now_ns") is lease.now_ns]:
            patches.enter_context(patch.object(module, "now_ns", now_ns))
        yield


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `main` returns, on a loop of its own; tasks that it leaves are cancelled."""
    loop = VirtualLoop()
    with _clock(loop), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main())
