"""Clients of the frontier that are told all: what they have been told `ok` has to be stored."""

import asyncio
import contextlib
import json
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import aiohttp
from run_ledgers import RunLedger

_RETRY_SECONDS = 0.1
_LOST = (aiohttp.ClientError, ConnectionError, TimeoutError)
_MOST_ITEMS = 100


class RunClient:
    """One WebSocket. What isn't answered `ok` is sent again, in the same frame or in another one."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, ledger: RunLedger, pause_seconds: float = 0
    ) -> None:
        self._session, self._url, self._ledger = session, url, ledger
        self._pause_seconds = pause_seconds  # after each frame
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self.errors: list[str] = []
        """Replies, and lost connections."""
        self.answered = 0

    async def log(self, chance: random.Random) -> None:
        """All of the ledger."""
        waiting: list[dict[str, Any]] = []
        for item in self._ledger.items:
            if isinstance(item, str):
                waiting.append(await self._upload(item))
            else:
                waiting.append(item)
            if len(waiting) >= chance.randint(1, _MOST_ITEMS):
                await self.send(waiting)
                waiting = []
                await asyncio.sleep(self._pause_seconds)
        await self.send(waiting)
        if self._socket is not None:
            await self._socket.close()

    async def send(self, items: Sequence[dict[str, Any]]) -> None:
        """Until it is answered `ok`."""
        while items:
            try:
                reply = await self.ask(json.dumps(list(items)))
            except _LOST as error:
                self.errors.append(type(error).__name__)
                self._socket = None
            else:
                if reply["status"] == "ok":
                    self.answered += len(items)
                    return
                self.errors.append(reply["error"])
            await asyncio.sleep(_RETRY_SECONDS)

    async def ask(self, frame: str) -> dict[str, Any]:
        """The reply to one frame. Raises what tells that the connection is lost."""
        if self._socket is None:
            self._socket = await self._session.ws_connect(f"{self._url}/api/v1/ws/runs/{self._ledger.run_id}")
        await self._socket.send_str(frame)
        message = await asyncio.wait_for(self._socket.receive(), 60)
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise ConnectionError(f"the socket has ended: {message}")
        reply: dict[str, Any] = json.loads(message.data)
        return reply

    async def _upload(self, path: str) -> dict[str, Any]:
        """The bytes first, then what says that they are there."""
        body = {"run_id": self._ledger.run_id, "artifact_path": path, "content_type": "application/x-test"}
        while True:
            with contextlib.suppress(*_LOST):
                async with self._session.post(
                    f"{self._url}/api/v1/rest/artifacts/presign", json=body
                ) as answer:
                    answer.raise_for_status()
                    said = await answer.json()
                headers = {"Content-Type": "application/x-test", **(said.get("headers") or {})}
                data = self._ledger.expected.artifacts[path]
                async with self._session.put(said["upload_url"], data=data, headers=headers) as answer:
                    answer.raise_for_status()
                return {
                    "type": "blob_ref",
                    "artifact_path": path,
                    "content_type": "application/x-test",
                    "s3_key": said["s3_key"],
                }
            await asyncio.sleep(_RETRY_SECONDS)


async def log_all(
    url: str, ledgers: Iterable[RunLedger], seed: int = 0, pause_seconds: float = 0
) -> list[RunClient]:
    """All at once, each by a client of its own. Returns once all are answered."""
    async with aiohttp.ClientSession() as session:
        clients = [RunClient(session, url, ledger, pause_seconds) for ledger in ledgers]
        await asyncio.gather(*(it.log(random.Random(seed + at)) for at, it in enumerate(clients)))
    return clients


def in_thread(
    url: str, ledgers: Sequence[RunLedger], seed: int = 0, pause_seconds: float = 0
) -> Callable[[float], list[RunClient]]:
    """`log_all` beside the caller, who gets what waits for its end."""
    found: list[RunClient] = []

    def work() -> None:
        found.extend(asyncio.run(log_all(url, ledgers, seed, pause_seconds)))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def wait(seconds: float) -> list[RunClient]:
        thread.join(seconds)
        assert not thread.is_alive(), "the clients have not come to their end"
        return found

    return wait
