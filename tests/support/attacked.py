"""Run as a process: one of Headrace's servers, for those who attack it. Limits of time are short.

usage: attacked.py http|admin|v3io|frontier FOLDER

Prints its URL, then, for each line on stdin, what the server has done beyond refusing, as JSON.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from fake_processor import FakeProcessor
from http_function import http_function

from headrace.functions.run_tracking.frontier import service
from headrace.functions.run_tracking.settings import read_settings
from headrace.runtime.admin import server as admin
from headrace.runtime.embedded.v3io import api
from headrace.runtime.embedded.v3io.api import AccessKey, Api
from headrace.runtime.embedded.v3io.store import open_store
from headrace.runtime.tasks import start_task
from headrace.runtime.web import limits
from headrace.runtime.web.addresses import TcpAddress
from headrace.runtime.web.limits import Limits
from headrace.runtime.web.server import Server
from headrace.triggers.http import trigger

IDLE_SECONDS = 3.0
RATE_SECONDS = 2.0
Done = Callable[[], object]

_HANDLER = """
    def handler(context, event):
        if event.method != "GET":
            return context.Response(status_code=422)
        write(event.path)
        return "done"
"""


@asynccontextmanager
async def http(folder: Path) -> AsyncIterator[tuple[str, Done]]:
    attributes = {"ingresses": {"one": {"paths": ["/ok"]}}}
    async with http_function(folder, _HANDLER, attributes=attributes) as function:
        yield function.url, function.lines


@asynccontextmanager
async def admin_of_a_run(_: Path) -> AsyncIterator[tuple[str, Done]]:
    processor = FakeProcessor({3}, {3})
    async with admin.admin_server(processor, TcpAddress("127.0.0.1", 0)) as url:
        yield url, lambda: processor.acted


@asynccontextmanager
async def v3io(folder: Path) -> AsyncIterator[tuple[str, Done]]:
    store, ended = open_store(folder, ["bigdata"]), asyncio.Event()
    urls = _urls()

    def names() -> list[Any]:
        return store.database.execute("SELECT folder, name FROM nodes").fetchall()

    before = names()
    serving = start_task(api.serve(Api(store, AccessKey("")), 0, ended), "the server")
    yield await urls, lambda: [name for name in names() if name not in before]
    ended.set()
    await serving


@asynccontextmanager
async def frontier(folder: Path) -> AsyncIterator[tuple[str, Done]]:
    produced: list[str] = []
    context: Any = SimpleNamespace(
        produce=lambda topic, *_, **__: produced.append(topic),
        user_data=SimpleNamespace(),
        platform=SimpleNamespace(set_termination_callback=lambda _: None),
        logger=SimpleNamespace(info_with=lambda *_, **__: None),
    )
    settings = read_settings({"FRONTIER_PORT": "0", "BLOBS": str(folder / "blobs")})
    urls = _urls()
    await service.listen(context, settings)
    yield (
        await urls,
        lambda: (
            produced + [str(path) for path in (folder / "blobs").rglob("*") if path.is_file() and path.suffix]
        ),
    )


def _urls() -> "asyncio.Future[str]":
    """Where the next server listens."""
    found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    listen = Server.listen

    async def told(self: Server, host: str, port: int, **options: Any) -> None:
        await listen(self, host, port, **options)
        found.set_result(self.url)

    cast("Any", Server).listen = told
    return found


SERVERS = {"http": http, "admin": admin_of_a_run, "v3io": v3io, "frontier": frontier}


async def main(kind: str, folder: str) -> None:
    trigger.IDLE_SECONDS = admin.IDLE_SECONDS = api._IDLE_SECONDS = IDLE_SECONDS
    cast("Any", service).Limits = partial(Limits, idle_seconds=IDLE_SECONDS)
    limits.RATE_SECONDS = RATE_SECONDS
    async with SERVERS[kind](Path(folder)) as (url, done):
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        while await asyncio.to_thread(sys.stdin.readline):
            sys.stdout.write(f"{json.dumps(done())}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
