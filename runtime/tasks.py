"""Helpers for asyncio tasks, task groups that fail with one error, and the end of a child process."""

import asyncio
import contextlib
import logging
import os
import subprocess
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from typing import Any

logger = logging.getLogger(__name__)


def start_task(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Run `work` and log an error that ends it. The owner keeps the task and cancels it in the end."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_report)
    return task


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks; return once they have ended, in whatever way. Tasks that had ended stay as they were."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


async def run_to_end(work: Coroutine[Any, Any, None], seconds: float | None = None) -> None:
    """Await `work`, and hold up a cancel until it has ended; after `seconds`, if given, cancel `work` too."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)  # a cancel of ours ends the wait, not the work
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=seconds)
        await end_tasks([task])
        raise


async def outcome(task: asyncio.Task[None]) -> None:
    """Await a task and raise its error. The task goes on where its waiter is cancelled meanwhile."""
    await asyncio.wait([task])  # unlike `await task`, a cancel of the waiter doesn't cancel the task
    if not task.cancelled():
        task.result()


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s has ended, by an error of Headrace's own", task.get_name(), exc_info=error)


@contextlib.asynccontextmanager
async def task_group(*expected: type[Exception]) -> AsyncIterator[asyncio.TaskGroup]:
    """Open a task group that fails with the first of its errors.

    It fails with all of them, as a group, if one isn't `expected`.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    # Not `except*`: before Python 3.11.4, an error that is raised there comes out inside another group.
    except BaseExceptionGroup as group:
        errors = list(_leaves(group))
        raise errors[0] if all(isinstance(error, expected) for error in errors) else group from None


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def until_ended(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the end of a child process, without a thread. It still has to be reaped."""
    if process.poll() is not None:
        return
    # A pidfd is readable once the process has ended.
    handle, ended = os.pidfd_open(process.pid), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
