"""Tasks that nobody awaits until they are stopped."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


def start_task(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Run `work` and say so if it ends by an error; its owner keeps the task and cancels it in the end."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s has ended, by an error of Headrace's own", task.get_name(), exc_info=error)
