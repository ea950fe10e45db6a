"""Items on their way to the frontier: in order, each until it is answered, and never more than have room."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import aiohttp
import msgspec


class TrackerError(Exception):
    """Refused by the server, or not taken by it for too long. One line."""


MOST_ITEMS = 100


"""Of one frame."""


_MOST_FRAME_BYTES = 4 * 1024 * 1024  # frontiers take 16 MiB


_GATHER_SECONDS = 0.05


_REPLY_SECONDS = 60.0


_FIRST_PAUSE_SECONDS = 0.1


_LONGEST_PAUSE_SECONDS = 5.0


# A later attempt finds these as they are.
_FINAL_STATUSES = frozenset({400, 401, 403, 404})


LOST = (aiohttp.ClientError, ConnectionError, TimeoutError)


logger = logging.getLogger(__name__)


class _Reply(msgspec.Struct):
    status: str
    error: str | None = None


class Backoff:
    """Growing ones, until there was no success for as long as patience lasts."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self.reset()

    def reset(self) -> None:
        """After a success."""
        self._next, self._since = _FIRST_PAUSE_SECONDS, asyncio.get_running_loop().time()

    async def take(self, reason: str) -> None:
        """Raises TrackerError where patience is over."""
        if asyncio.get_running_loop().time() - self._since > self._patience_seconds:
            raise TrackerError(f"given up after {self._patience_seconds:g} s: {reason}")
        logger.debug("trying again: %s", reason)
        await asyncio.sleep(self._next)
        self._next = min(self._next * 2, _LONGEST_PAUSE_SECONDS)


class Outbox:
    """One connection, made again whenever it is lost. A frame waits for the reply to the one before it."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        room: int,
        patience_seconds: float,
        on_acknowledged: Callable[[int], object],
    ) -> None:
        """`url` is the run's; `room` is how many items may wait. Needs a running loop."""
        self._session, self._url = session, url
        self._patience_seconds = patience_seconds
        self._on_acknowledged = on_acknowledged
        self._items: asyncio.Queue[bytes] = asyncio.Queue(room)
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._left_over: bytes | None = None
        """Had no room in the last frame."""
        self._refused: list[str] = []
        self._given_up: str | None = None
        self._task = asyncio.create_task(self._run())

    async def put(self, item: bytes) -> None:
        """Waits for room. Raises TrackerError for what was refused before; this item isn't taken then."""
        self._raise_refused()
        await self._items.put(item)

    async def flush(self) -> None:
        """Until all are answered. Raises TrackerError."""
        await self._items.join()
        self._raise_refused()

    async def close(self) -> None:
        """What isn't answered is forgotten."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._hang_up()

    def _raise_refused(self) -> None:
        if self._given_up is not None:
            raise TrackerError(self._given_up)
        if self._refused:
            refused, self._refused = self._refused, []
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise TrackerError(refused[0] + more)

    async def _run(self) -> None:
        while True:
            items = await self._gather()
            try:
                if self._given_up is None:
                    await self._deliver(items)
            except Exception as error:  # what waits is let go, so that nobody waits for room forever
                self._given_up = str(error) if isinstance(error, TrackerError) else repr(error)
            finally:
                for _ in items:
                    self._items.task_done()

    async def _gather(self) -> list[bytes]:
        """As many as a frame holds, or what has come within 50 ms of the first."""
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
        """Until it is answered. A frame is refused as a whole: then its items go one by one."""
        error = await self._error_of(b"[%s]" % b",".join(items))
        if error is None:
            self._on_acknowledged(len(items))
        elif len(items) == 1:
            self._refused.append(error)
        else:
            for item in items:
                await self._deliver([item])

    async def _error_of(self, frame: bytes) -> str | None:
        """What the server says for good. Raises TrackerError where it says nothing for too long."""
        pauses = Backoff(self._patience_seconds)
        while True:
            try:
                reply = await self._ask(frame.decode())
            except aiohttp.WSServerHandshakeError as error:
                if error.status in _FINAL_STATUSES:
                    raise TrackerError(f"{self._url}: {error.status} {error.message}") from None
                reason = f"{error.status} {error.message}"
            except aiohttp.InvalidURL as error:
                raise TrackerError(f"that is no address: {error}") from None
            except LOST as error:
                reason = str(error) or type(error).__name__
            else:
                if reply.status == "ok":
                    return None
                reason = reply.error or "refused"
                if not says_again(reason):
                    return reason
                await pauses.take(reason)
                continue
            await self._hang_up()  # a reply that came now would be taken for the next frame's
            await pauses.take(reason)

    async def _ask(self, frame: str) -> _Reply:
        if self._socket is None:
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

    async def _hang_up(self) -> None:
        if self._socket is not None:
            with suppress(*LOST):
                await self._socket.close()
            self._socket = None


def says_again(error: str) -> bool:
    """Whether the server asks for the same once more. At the end: what it quotes of an item says nothing."""
    return error.rstrip(".! ").endswith("again")
