"""Servers that aren't brokers, or that answer what no broker would."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Takes all, and says nothing."""
    await reader.read()


async def closing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Hangs up on the first byte."""
    await reader.read(1)


def saying(first: bytes) -> Answer:
    """Without being asked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await reader.read()

    return answer


@asynccontextmanager
async def stranger(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Its address."""
    open_now: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now.add(task)
        try:
            await answer(reader, writer)
        except (ConnectionError, EOFError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            open_now.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(open_now):
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)
