"""Watchdog over the event loop of a process, which another thread of the process asks."""

import asyncio
import sys
import threading
import traceback
from types import TracebackType
from typing import Self

BEAT_SECONDS = 1.0
# From then on /live answers 503: the process should be restarted.
STUCK_SECONDS = 10.0


class EventLoopWatchdog:
    """Beats on the event loop that it is entered on; `watch_forever` counts the beats on another thread.

    Time is measured in turns of the watching loop, not by a clock: of a process that somebody has stopped, or
    a machine that slept, nothing is said.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._has_turned = True
        self._silent_seconds = 0.0
        self._next_beat: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._beat()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._next_beat is not None:
            self._next_beat.cancel()

    def _beat(self) -> None:
        # Read and cleared on the other thread, without a lock: at worst one beat counts for another.
        self._has_turned = True
        self._next_beat = self._loop.call_later(BEAT_SECONDS, self._beat)

    async def watch_forever(self) -> None:
        """Count the seconds without a beat. Runs on another thread's event loop until it is cancelled."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self._silent_seconds = 0.0 if self._has_turned else self._silent_seconds + BEAT_SECONDS
            self._has_turned = False

    def problem(self) -> str:
        """Return since when the loop has not turned, and where it is; empty while it turns."""
        if self._silent_seconds < STUCK_SECONDS:
            return ""
        return f"the event loop has not turned for {self._silent_seconds:.0f} s: it is in {self._where()}"

    def _where(self) -> str:
        # The innermost frame of the hanging thread is the call that blocks it.
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001  # the only way to ask
        if frame is None:
            return "no Python code"
        place = traceback.extract_stack(frame, limit=1)[0]
        return f"{place.name} ({place.filename}:{place.lineno})"
