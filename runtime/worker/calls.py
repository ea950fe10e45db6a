"""Parts that all ways of calling a handler share: their environment, and the cancellation of a call."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.api.acks import WorkerAcks
from headrace.runtime.worker.api.context import Context
from headrace.runtime.worker.api.event_loop import WorkerEventLoop
from headrace.runtime.worker.api.user_traceback import describe_failure
from headrace.runtime.worker.context_variables import ContextVariables
from headrace.runtime.worker.forks import ForkGuard
from headrace.runtime.worker.handler import Handler
from headrace.runtime.worker.inbox import Inbox
from headrace.runtime.worker.lanes import WorkerLanes

RETURNED_LATE = "the handler returned after that"
"""Why a call that was to end has failed, where it has returned all the same."""


@dataclass(frozen=True, slots=True)
class CallEnvironment:
    """The parts of one worker process that its calls need."""

    send: Callable[[bytes], None]
    """Writes whole frames to the processor, from any thread."""
    slot: ProgressSlot
    start: WorkerStart
    loop: WorkerEventLoop
    inbox: Inbox
    lanes: WorkerLanes
    acks: WorkerAcks
    forks: ForkGuard
    handler: Handler
    context: Context
    variables: ContextVariables

    @property
    def may_ask_no_ack(self) -> bool:
        """Whether a response may ask not to ack its record."""
        return self.start.ack_mode == "enable"


class CallCancellation:
    """Cancels calls of an async handler, where records or batches follow each other.

    A call is named by the `seq` of its record, or of the first record of its batch.
    """

    def __init__(self, slot: ProgressSlot, loop: asyncio.AbstractEventLoop) -> None:
        self._slot = slot
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self.seq = -1
        """The last call that was to be cancelled; none is below 0."""
        self._why = ""
        self._is_cancelled = False

    def enter_task(self) -> None:
        """Say that the current task calls the handler from now on (main thread)."""
        self._task = asyncio.current_task()

    def cancel(self, seq: int, why: str) -> None:
        """Cancel call `seq`, if the handler is still in it (link thread).

        It has failed then, whatever the handler does.
        """
        if self._is_in(seq):
            self._why = why
            self.seq = seq  # whatever it does now, and if it never lets its loop turn
            self._loop.call_soon_threadsafe(self._cancel, seq)

    def reason(self, error: BaseException, seq: int) -> str:
        """Return why call `seq` has failed. If `error` came of a cancellation, that ends here."""
        if self.seq != seq:
            return describe_failure(error)
        cancelled, self._is_cancelled = self._task if self._is_cancelled else None, False
        return late_reason(error, self._why, cancelled)

    def _cancel(self, seq: int) -> None:
        # On the loop: so whatever runs is at an await. Else the run may still be decoded.
        if self._is_in(seq) and self._task is not None and not self._task.done():
            self._is_cancelled = True
            self._task.cancel()

    def _is_in(self, seq: int) -> bool:
        now = self._slot.read()
        return now.is_running and now.seq == seq


def late_reason(error: BaseException, why: str, cancelled: asyncio.Task[Any] | None) -> str:
    """Return why a call has failed that was to end because of `why`.

    `cancelled` is its task, if that was cancelled: the cancellation ends here.
    """
    if cancelled is None:
        return f"{why}:\n{describe_failure(error)}"
    cancelled.uncancel()
    return f"{why} and was cancelled:\n{describe_failure(error)}"
