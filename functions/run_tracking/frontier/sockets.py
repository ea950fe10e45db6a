"""WebSockets of clients, one for each run: a frame has one item or a list of them, and gets one reply."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from weakref import WeakSet

import msgspec
from aiohttp import WSCloseCode, web

from headrace.functions.run_tracking.frontier.publishing import ItemPublisher, PublishError
from headrace.functions.run_tracking.frontier.status import FrontierMetrics
from headrace.functions.run_tracking.messages.envelopes import encode_messages
from headrace.functions.run_tracking.messages.items import (
    MOST_ITEM_BYTES,
    RUN_ID,
    AddTag,
    ClientItem,
    ItemError,
    LogCustomObject,
    LogHParams,
    LogMetric,
    RemoveTag,
    read_frame,
)
from headrace.functions.run_tracking.messages.validation import weight_of
from headrace.functions.run_tracking.settings import RunBounds
from headrace.web import frames

# 16 of the largest items.
_MOST_FRAME_BYTES = 16 * 1024 * 1024
_HEARTBEAT_SECONDS = 30.0
_OK = '{"status":"ok","error":null}'
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ConnectionLimits:
    """Counts what a client has named on its connection, to refuse too much before it is in Kafka.

    Ingestion counts everything that is stored of the run, over all its connections.
    """

    bounds: RunBounds
    _sequences: set[int] = field(default_factory=set)
    """Hashes of names and contexts, to save memory."""
    _tags: set[str] = field(default_factory=set)

    def check(self, items: Iterable[ClientItem]) -> None:
        """Count the items of a frame. Raises ItemError for the first over a limit; none counts then."""
        sequences, tags = set[int](), set(self._tags)
        for item in items:
            match item:
                case LogMetric() | LogCustomObject():
                    self._sequence(item, sequences)
                case LogHParams():
                    self._hparams(item)
                case AddTag():
                    tags.add(item.tag_name)
                    if len(tags) > self.bounds.tags:
                        raise ItemError(f"a run has at most {self.bounds.tags} tags: RUN_MAX_TAGS")
                case RemoveTag():
                    tags.discard(item.tag_name)
        # Only now is the whole frame accepted.
        self._sequences |= sequences
        self._tags = tags

    def _sequence(self, item: LogMetric | LogCustomObject, new: set[int]) -> None:
        # Two with the same hash count as one here; ingestion counts by their names.
        key = hash((item.name, msgspec.json.encode(item.context) if item.context else b""))
        if key in self._sequences or key in new:
            return
        if len(self._sequences) + len(new) >= self.bounds.sequences:
            raise ItemError(
                f"a run has at most {self.bounds.sequences} metrics and the like, each in each context:"
                " RUN_MAX_SEQUENCES"
            )
        new.add(key)

    def _hparams(self, item: LogHParams) -> None:
        size, names = weight_of(item.value)
        if size > self.bounds.hparams_bytes or names > self.bounds.hparams:
            raise ItemError(self.bounds.say_hparams(size, names))


class Sockets:
    """The open connections."""

    def __init__(self, publisher: ItemPublisher, counts: FrontierMetrics, bounds: RunBounds) -> None:
        self._publisher, self._counts, self._bounds = publisher, counts, bounds
        # Weak: a connection that has ended is forgotten by itself.
        self._open: WeakSet[web.WebSocketResponse] = WeakSet()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one client until it disconnects. An invalid frame gets an error; the socket stays open."""
        run_id = request.match_info["run_id"]
        if not RUN_ID.fullmatch(run_id):
            return web.json_response({"error": f"{run_id[:200]!r} is no id of a run"}, status=400)
        socket = web.WebSocketResponse(
            max_msg_size=_MOST_FRAME_BYTES, compress=False, heartbeat=_HEARTBEAT_SECONDS
        )
        await socket.prepare(request)
        self._open.add(socket)
        limits = ConnectionLimits(self._bounds)
        with self._counts.connections.track_inprogress():
            async for frame in frames(request, socket):
                await socket.send_str(await self._reply(run_id, limits, frame.data))
        return socket

    async def close(self) -> None:
        """Close all connections. Clients reconnect, to another worker or once this one runs again."""
        # A copy: the set changes as sockets close.
        for socket in list(self._open):
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the frontier stops")

    async def _reply(self, run_id: str, limits: ConnectionLimits, frame: str | bytes) -> str:
        try:
            await self._take(run_id, limits, frame)
        except (ItemError, PublishError) as error:
            self._counts.refused.labels(type(error).__name__).inc()
            logger.debug("run %s: a frame is refused: %s", run_id, error)
            return msgspec.json.encode({"status": "error", "error": str(error)}).decode()
        return _OK

    async def _take(self, run_id: str, limits: ConnectionLimits, frame: str | bytes) -> None:
        """Check and publish a frame: all items are valid, or none is published."""
        items, now = read_frame(run_id, frame), datetime.now(UTC)
        try:
            limits.check(items)
            values = encode_messages(run_id, items, now)
        except UnicodeEncodeError:  # Python's JSON reader accepts lone surrogates
            raise ItemError("it has a character that no text has") from None
        for place, value in enumerate(values):
            # The broker would refuse it alone, when other items of the frame are already published.
            if len(value) > MOST_ITEM_BYTES:
                raise ItemError(f"item {place} is of {len(value)} bytes: at most {MOST_ITEM_BYTES}")
        # A frame with an empty list is valid, and there is nothing to publish.
        if values:
            await self._publisher.publish(run_id, values)
            self._counts.count(items)
