"""Tasks that work for an event beyond the return of its handler: kept, and heard when they fail."""

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from headrace.runtime.worker.api.acks import WorkerAcks, record_place
from headrace.runtime.worker.api.record_id import CURRENT_RECORD, CURRENT_RECORD_ID, RecordId
from headrace.runtime.worker.api.user_traceback import describe_failure

logger = logging.getLogger(__name__)

T = TypeVar("T")


class EventTasks:
    """Of one worker. The event loop has only weak references to tasks, so they are kept here."""

    def __init__(self, acks: WorkerAcks) -> None:
        self._acks = acks
        self._tasks: set[asyncio.Task[Any]] = set()

    def create(self, coroutine: Coroutine[Any, Any, T], event: Any) -> asyncio.Task[T]:
        """On the loop that runs here. Raises RuntimeError where none does."""
        context = copy_context()
        context.run(CURRENT_RECORD_ID.set, RecordId(*record_place(event)))
        context.run(CURRENT_RECORD.set, getattr(event, "_record", None))
        task = asyncio.get_running_loop().create_task(coroutine, context=context)
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, event), context=context)
        return task

    def _ended(self, task: asyncio.Task[Any], event: Any) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._nack(event, "its task was cancelled")
        elif (error := task.exception()) is not None:
            self._nack(event, describe_failure(error))

    def _nack(self, event: Any, reason: str) -> None:
        if not self._acks.nack(event, reason):
            message = "a task of %s/%d offset %d failed, which changes nothing: %s"
            logger.error(message, *record_place(event), reason)
