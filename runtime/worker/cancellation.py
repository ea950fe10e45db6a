"""The one call that a worker is in, where its processor wants that to end."""

import asyncio
from typing import Any

from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.worker.api.user_traceback import describe_failure


class CallCancellation:
    """Of an async handler, where records or batches follow each other."""

    def __init__(self, slot: ProgressSlot, loop: asyncio.AbstractEventLoop) -> None:
        self._slot = slot
        self._loop = loop
        self.task: asyncio.Task[Any] | None = None
        """That calls the handler. Its owner sets it."""
        self.seq = -1
        """The last that was to be cancelled; none is below 0."""
        self._why = ""
        self._is_cancelled = False

    def cancel(self, seq: int, why: str) -> None:
        """If the handler is still in `seq`: that has failed, and is cancelled (link thread)."""
        if self._is_in(seq):
            self._why = why
            self.seq = seq  # whatever it does now, and if it never lets its loop turn
            self._loop.call_soon_threadsafe(self._cancel, seq)

    def reason(self, error: BaseException, seq: int) -> str:
        """Of a failure. If it came of a cancellation, that ends here."""
        if self.seq != seq:
            return describe_failure(error)
        cancelled, self._is_cancelled = self.task if self._is_cancelled else None, False
        return late_reason(error, self._why, cancelled)

    def _cancel(self, seq: int) -> None:
        """On the loop: so whatever runs is at an await."""
        if self._is_in(seq) and self.task is not None and not self.task.done():  # else it was decoded
            self._is_cancelled = True
            self.task.cancel()

    def _is_in(self, seq: int) -> bool:
        now = self._slot.read()
        return now.is_running and now.seq == seq


def late_reason(error: BaseException, why: str, cancelled: asyncio.Task[Any] | None) -> str:
    """Of a call that was to end, and `why`. If it came of a cancellation of that task, that ends here."""
    if cancelled is None:
        return f"{why}:\n{describe_failure(error)}"
    cancelled.uncancel()
    return f"{why} and was cancelled:\n{describe_failure(error)}"
