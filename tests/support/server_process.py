"""The process that has the servers of a run (servers.py): it starts each when it is first asked for.

usage: server_process.py SOCKET
"""

import asyncio
import pickle
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from broker import any_broker
from certificates import Authority
from postgresql import Databases, postgresql, programs
from servers import RULED_USERS, USERS, Failed, GuardedBroker, SharedV3io
from spark import QUICK, SharedSpark, spark_function

from headrace.runtime.embedded.kafka import broker as embedded_kafka
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.properties import broker_settings
from headrace.runtime.embedded.kafka.security import BrokerSecurity
from headrace.runtime.embedded.spark.server import SparkServer
from headrace.runtime.embedded.v3io.server import EmbeddedV3io
from headrace.runtime.spark.link import SparkLink


@asynccontextmanager
async def _guarded() -> AsyncIterator[GuardedBroker]:
    clients = Authority()
    security = BrokerSecurity(USERS, takes_tokens=True, tls=True, client_ca_pem=clients.pem)
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{name}" for name in ("ANONYMOUS", *{*USERS} - {*RULED_USERS})),
        "ssl.principal.mapping.rules": "RULE:.*CN=([^,]+).*/$1/",
    }
    with mock.patch.object(embedded_kafka, "broker_settings", lambda *given: broker_settings(*given) | rules):
        kafka = EmbeddedKafka(security=security)
        await kafka.start()
    async with kafka:
        yield GuardedBroker(
            kafka.bootstrap,
            kafka.sasl_bootstrap,
            kafka.tls_bootstrap,
            kafka.sasl_tls_bootstrap,
            kafka.mutual_tls_bootstrap,
            kafka.ca_pem,
            clients.pair("ada"),
        )
        kafka.kill()


@asynccontextmanager
async def _spark() -> AsyncIterator[SharedSpark]:
    with tempfile.TemporaryDirectory() as folder:
        server = SparkServer([spark_function(Path(folder), QUICK)], lambda: None)
        await server.start()
        try:
            assert server.pid is not None
            yield SharedSpark(SparkLink(server.link.url, server.link.token), server.pid)
        finally:
            await server.stop()


@asynccontextmanager
async def _v3io() -> AsyncIterator[SharedV3io]:
    async with EmbeddedV3io() as server:
        assert server._folder.path is not None
        log = server._folder.path / "v3io.log"
        yield SharedV3io(server.url, log)
        assert not (said := log.read_text()), said


@asynccontextmanager
async def _postgresql() -> AsyncIterator[Databases | None]:
    """None where there is none."""
    if (where := programs()) is None:
        yield None
        return
    with postgresql(where) as server:
        yield server.databases


KINDS: dict[str, Callable[[], AbstractAsyncContextManager[Any]]] = {
    "broker": any_broker,
    "guarded": _guarded,
    "spark": _spark,
    "v3io": _v3io,
    "postgresql": _postgresql,
}


class _Servers:
    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._answers: dict[str, asyncio.Task[bytes]] = {}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kind = (await reader.readline()).decode().strip()
        if kind not in self._answers:
            self._answers[kind] = asyncio.create_task(self._start(kind))
        writer.write(await asyncio.shield(self._answers[kind]))
        writer.close()

    async def _start(self, kind: str) -> bytes:
        try:
            return pickle.dumps(await self._stack.enter_async_context(KINDS[kind]()))
        except Exception:
            return pickle.dumps(Failed(traceback.format_exc()))

    async def stop(self) -> None:
        await asyncio.gather(*self._answers.values())
        await self._stack.aclose()


async def _serve(address: str) -> None:
    servers = _Servers()
    async with await asyncio.start_unix_server(servers.answer, address):
        print("listens", flush=True)  # noqa: T201  # to whoever waits for it
        await asyncio.to_thread(sys.stdin.buffer.read)  # until whoever started it is gone
    await servers.stop()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
