"""A function's only trigger, run in the test's own process, with workers of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.metrics.runtime_metrics import MetricRegistry
from headrace.runtime.processor.running_trigger import RunningFunction, RunningTrigger


def made(folder: Path) -> RunningTrigger:
    function = load_function(folder)
    return RunningTrigger(RunningFunction(function), function.triggers[0], MetricRegistry(), {})


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[RunningTrigger]:
    trigger = made(folder)
    await trigger.start_workers()
    run = asyncio.create_task(trigger.run())
    try:
        yield trigger
    finally:
        await trigger.stop()
        await run


def written(folder: Path) -> list[int]:
    """What the handler has written, if that is numbers."""
    path = folder / "log"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []
