"""An http function in this process, with real workers: what a client asks of it, and raw bytes."""

import asyncio
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml
from worker_bench import PRELUDE, until

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.metrics.runtime_metrics import MetricRegistry
from headrace.runtime.processor.running_trigger import RunningFunction, RunningTrigger


@dataclass(frozen=True)
class Said:
    """An answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Function:
    """It listens."""

    running: RunningTrigger
    folder: Path
    url: str
    session: aiohttp.ClientSession
    waiting: list["asyncio.Task[Said]"] = field(default_factory=list)

    async def ask(self, path: str = "/", method: str = "GET", **options: Any) -> Said:
        async with self.session.request(method, self.url + path, **options) as answer:
            return Said(answer.status, await answer.read(), answer.headers)

    def begin(self, path: str = "/", **options: Any) -> "asyncio.Task[Said]":
        """Ask, without waiting for the answer."""
        self.waiting.append(asyncio.create_task(self.ask(path, **options)))
        return self.waiting[-1]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = urlsplit(self.url)
        return await asyncio.open_connection(where.hostname, where.port)

    async def send(self, data: bytes) -> bytes:
        """Raw bytes; all that comes back until the connection ends."""
        reader, writer = await self.connect()
        writer.write(data)
        said = await reader.read()
        writer.close()
        return said

    def lines(self) -> list[str]:
        """What the handler has written."""
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def counted(self, name: str) -> float:
        """A counter of the trigger's metrics."""
        value: float = getattr(self.running.metrics, name)._value.get()
        return value


def write_http_function(folder: Path, handler: str, *, spec: Any = None, **trigger: Any) -> None:
    """A function.yaml with one http trigger on a free port, and its handler, which has PRELUDE's names."""
    (folder / "function_code.py").write_text(PRELUDE + textwrap.dedent(handler))
    attributes = {"port": 0} | trigger.pop("attributes", {})
    triggers = {"web": {"kind": "http", "attributes": attributes, **trigger}}
    of_spec = {"handler": "function_code:handler", "triggers": triggers, **(spec or {})}
    (folder / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": "f"}, "spec": of_spec}))


@asynccontextmanager
async def http_function(
    folder: Path, handler: str, *, spec: Any = None, **trigger: Any
) -> AsyncIterator[Function]:
    """It runs until the context ends."""
    write_http_function(folder, handler, spec=spec, **trigger)
    async with running_http_function(folder) as it:
        yield it


@asynccontextmanager
async def running_http_function(folder: Path) -> AsyncIterator[Function]:
    """What the folder's function.yaml says, which has one trigger."""
    function = load_function(folder)
    running = RunningTrigger(RunningFunction(function), function.triggers[0], MetricRegistry(), {})
    await running.start_workers()
    run = asyncio.create_task(running.run())
    timeout = aiohttp.ClientTimeout(100)
    try:
        await until(lambda: run.done() or not running.trigger.problems())
        if run.done():
            run.result()
        url = running.trigger.status().about["url"]
        async with aiohttp.ClientSession(timeout=timeout) as session:
            it = Function(running, folder, url, session)
            yield it
            await asyncio.gather(*it.waiting, return_exceptions=True)
    finally:
        await running.stop()
        await run
