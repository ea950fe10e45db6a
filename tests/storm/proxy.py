"""A TCP proxy between a replica and its broker: it forwards, or delays, or drops, in either direction."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Proxy:
    """Forwards one port to another. Its settings may be changed at any time, by any thread.

    What is cut stays open and silent, as with a cable that was pulled: nothing is refused or reset. What
    comes meanwhile is kept and goes on in the end, as TCP would send it again.
    """

    def __init__(self) -> None:
        self.port = 0
        self.delay_seconds = 0.0
        self._upstream_port = 0
        self._open = {"up": threading.Event(), "down": threading.Event()}
        self.mend()

    def cut(self, *directions: str) -> None:
        """`up` is towards the broker, `down` is from it; none given: both."""
        for direction in directions or ("up", "down"):
            self._open[direction].clear()

    def mend(self) -> None:
        """All goes through again."""
        for flag in self._open.values():
            flag.set()

    @contextmanager
    def running(self, port: int, upstream_port: int) -> Iterator["Proxy"]:
        """On loopback, in a thread of its own."""
        self.port, self._upstream_port = port, upstream_port
        loop = asyncio.new_event_loop()
        listening = threading.Event()
        thread = threading.Thread(target=lambda: loop.run_until_complete(self._serve(listening, over)))
        over = asyncio.Event()
        thread.start()
        try:
            listening.wait(10)
            yield self
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join()
            loop.close()

    async def _serve(self, listening: threading.Event, over: asyncio.Event) -> None:
        links: set[asyncio.Task[None]] = set()

        async def link(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            links.add(task)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._link(reader, writer)
            links.discard(task)
            writer.close()

        async with await asyncio.start_server(link, "127.0.0.1", self.port):
            listening.set()
            await over.wait()
        for task in tuple(links):
            task.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        copies = [
            asyncio.create_task(self._copy("up", reader, upstream_writer)),
            asyncio.create_task(self._copy("down", upstream_reader, writer)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            upstream_writer.close()

    async def _copy(self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await asyncio.sleep(self.delay_seconds)
                while not self._open[direction].is_set():  # set by another thread
                    await asyncio.sleep(0.005)
                writer.write(data)
                await writer.drain()
