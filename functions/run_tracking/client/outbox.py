"""Ordered, bounded delivery of items to the frontier, each resent until it has a final reply."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import aiohttp
import msgspec

MOST_ITEMS = 100
"""Most items of one frame."""
_MOST_FRAME_BYTES = 4 * 1024 * 1024  # frontiers take 16 MiB
_GATHER_SECONDS = 0.05
# Longer than the frontier's own wait for Kafka, FRONTIER_TIMEOUT_SECONDS, which is 10 by default.
_REPLY_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
# Statuses that a later attempt would get again.
_FINAL_STATUSES = frozenset({400, 401, 403, 404})
CONNECTION_ERRORS = (aiohttp.ClientError, ConnectionError, TimeoutError)
logger = logging.getLogger(__name__)


class TrackerError(Exception):
    """The server refused an item, or took none for too long. The message is one line."""


class _Reply(msgspec.Struct):
    status: str
    error: str | None = None


class Backoff:
    """Growing pauses between attempts, until nothing has succeeded for `give_up_after_seconds`."""

    def __init__(self, give_up_after_seconds: float) -> None:
        self._give_up_after_seconds = give_up_after_seconds
        self.reset()

    def reset(self) -> None:
        """Begin anew, after a success."""
        self._next, self._since = _FIRST_PAUSE_SECONDS, asyncio.get_running_loop().time()

    async def sleep(self, reason: str) -> None:
        """Sleep until the next attempt. Raises TrackerError if nothing has succeeded for too long."""
        if asyncio.get_running_loop().time() - self._since > self._give_up_after_seconds:
            raise TrackerError(f"given up after {self._give_up_after_seconds:g} s: {reason}")
        logger.debug("trying again: %s", reason)
        await asyncio.sleep(self._next)
        self._next = min(self._next * 2, _LONGEST_PAUSE_SECONDS)


class Outbox:
    """Items on their way over one WebSocket, which is reconnected whenever it is lost.

    A frame is sent only after the reply to the one before it, so items arrive in order.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        max_queued_items: int,
        give_up_after_seconds: float,
        on_acknowledged: Callable[[int], object],
    ) -> None:
        """Start sending to `url`, the run's. At most `max_queued_items` wait. Needs a running event loop."""
        self._session, self._url = session, url
        self._give_up_after_seconds = give_up_after_seconds
        self._on_acknowledged = on_acknowledged
        self._items: asyncio.Queue[bytes] = asyncio.Queue(max_queued_items)
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._left_over: bytes | None = None
        """Item that had no room in the last frame."""
        self._refused: list[str] = []
        self._given_up: str | None = None
        self._task = asyncio.create_task(self._run())

    async def put(self, item: bytes) -> None:
        """Queue an item once there is room. Raises TrackerError for an earlier one, and then queues none."""
        self._raise_refused()
        await self._items.put(item)

    async def flush(self) -> None:
        """Wait until all items are answered. Raises TrackerError."""
        await self._items.join()
        self._raise_refused()

    async def close(self) -> None:
        """Stop. Items without a reply are dropped."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._disconnect()

    def _raise_refused(self) -> None:
        if self._given_up is not None:
            raise TrackerError(self._given_up)
        if self._refused:
            # Told once: the caller may go on without the refused items.
            refused, self._refused = self._refused, []
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise TrackerError(refused[0] + more)

    async def _run(self) -> None:
        while True:
            items = await self._gather()
            try:
                if self._given_up is None:
                    await self._deliver(items)
            except Exception as error:  # the queue is emptied, so that no caller waits for room forever
                self._given_up = str(error) if isinstance(error, TrackerError) else repr(error)
            finally:
                # Also for items that were given up, or `flush` would wait for them forever.
                for _ in items:
                    self._items.task_done()

    async def _gather(self) -> list[bytes]:
        """Return the items of the next frame: a full one, or what has come within 50 ms of the first."""
        first, self._left_over = self._left_over or await self._items.get(), None
        items, size = [first], len(first)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GATHER_SECONDS):
                while len(items) < MOST_ITEMS:
                    item = await self._items.get()
                    size += len(item)
                    if size > _MOST_FRAME_BYTES:
                        self._left_over = item
                        break
                    items.append(item)
        return items

    async def _deliver(self, items: list[bytes]) -> None:
        """Send items until they are answered.

        The server refuses a frame as a whole, so the items of a refused one are sent one by one.
        """
        error = await self._send_until_answered(b"[%s]" % b",".join(items))
        if error is None:
            self._on_acknowledged(len(items))
        elif len(items) == 1:
            self._refused.append(error)
        else:
            for item in items:
                await self._deliver([item])

    async def _send_until_answered(self, frame: bytes) -> str | None:
        """Send a frame until the reply is final; return its error, None if it was accepted.

        Raises TrackerError if there is no final reply for too long.
        """
        backoff = Backoff(self._give_up_after_seconds)
        while True:
            try:
                reply = await self._send(frame.decode())
            except aiohttp.WSServerHandshakeError as error:
                if error.status in _FINAL_STATUSES:
                    raise TrackerError(f"{self._url}: {error.status} {error.message}") from None
                reason = f"{error.status} {error.message}"
            except aiohttp.InvalidURL as error:
                raise TrackerError(f"that is no address: {error}") from None
            except CONNECTION_ERRORS as error:
                reason = str(error) or type(error).__name__
            else:
                if reply.status == "ok":
                    return None
                reason = reply.error or "refused"
                # A refusal for good, by the content of the frame.
                if not asks_to_resend(reason):
                    return reason
                await backoff.sleep(reason)
                continue
            await self._disconnect()  # a late reply would be taken for the next frame's
            await backoff.sleep(reason)

    async def _send(self, frame: str) -> _Reply:
        if self._socket is None:
            # Without a heartbeat the silence of a machine that is gone looks like a frontier that waits.
            self._socket = await self._session.ws_connect(self._url, heartbeat=30.0, max_msg_size=1024**2)
        async with asyncio.timeout(_REPLY_SECONDS):
            await self._socket.send_str(frame)
            message = await self._socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise ConnectionError("the connection is closed")
        try:
            return msgspec.json.decode(message.data, type=_Reply)
        except msgspec.DecodeError as error:
            raise ConnectionError(f"that is no reply: {error}") from None

    async def _disconnect(self) -> None:
        if self._socket is not None:
            with suppress(*CONNECTION_ERRORS):
                await self._socket.close()
            self._socket = None


def asks_to_resend(error: str) -> bool:
    """Whether an error asks to send the same again. Only its end counts: it may quote an item before."""
    return error.rstrip(".! ").endswith("again")
