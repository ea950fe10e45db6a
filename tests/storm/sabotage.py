"""Failpoints: as `sitecustomize` on PYTHONPATH, this kills a process of Headrace amid its real code.

HEADRACE_FAILPOINT is `NAME COUNT FILE`: at the COUNTth time that a process gets to NAME, once; FILE says that
it has happened. Python imports this by itself at its start. Without it, nothing of this is in the product.
"""

import contextlib
import functools
import inspect
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

# Name: the process, the method, and whether it is before or after it.
WORKER, PROCESSOR = "headrace.runtime.worker", "headrace"
FAILPOINTS = {
    "before-handler": (WORKER, "headrace.runtime.wire.progress_slot:ProgressSlot.enter", "after"),
    "after-handler": (WORKER, "headrace.runtime.wire.progress_slot:ProgressSlot.leave", "before"),
    "before-ack": (WORKER, "headrace.runtime.worker.api.acks:WorkerAcks.ack", "before"),
    "after-ack": (WORKER, "headrace.runtime.worker.api.acks:WorkerAcks.ack", "after"),
    "before-commit": (PROCESSOR, "headrace.runtime.streams.committer:Committer._send", "before"),
    "after-commit": (PROCESSOR, "headrace.runtime.streams.committer:Committer._send", "after"),
    "before-dead-letter": (
        PROCESSOR,
        "headrace.triggers.kafka.dead_letters:KafkaDeadLetters.write",
        "before",
    ),
    "after-dead-letter": (PROCESSOR, "headrace.triggers.kafka.dead_letters:KafkaDeadLetters.write", "after"),
}


def install(name: str, count: int, path: str) -> None:
    process, where, when = FAILPOINTS[name]
    if process not in sys.orig_argv:
        return
    module, _, attribute = where.partition(":")
    owner_name, method_name = attribute.split(".")
    owner = getattr(import_module(module), owner_name)
    reached = 0

    def reach() -> None:
        nonlocal reached
        reached += 1
        if reached == count:
            with contextlib.suppress(FileExistsError):  # another process was first
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, method_name, _around(getattr(owner, method_name), reach, is_before=when == "before"))


def _around(method: Callable[..., Any], reach: Callable[[], None], *, is_before: bool) -> Callable[..., Any]:
    @functools.wraps(method)
    async def waited(*arguments: Any, **named: Any) -> Any:
        if is_before:
            reach()
        result = await method(*arguments, **named)
        if not is_before:
            reach()
        return result

    @functools.wraps(method)
    def called(*arguments: Any, **named: Any) -> Any:
        if is_before:
            reach()
        result = method(*arguments, **named)
        if not is_before:
            reach()
        return result

    return waited if inspect.iscoroutinefunction(method) else called


if failpoint := os.environ.get("HEADRACE_FAILPOINT"):
    given_name, given_count, given_path = failpoint.split(" ", 2)
    install(given_name, int(given_count), given_path)
