"""How many connections a server keeps, and how long one may be silent: they cost descriptors."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from headrace.runtime.deadlines import Deadlines
from headrace.runtime.web.addresses import most_connections
from headrace.runtime.web.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from headrace.runtime.web.connection import Connection


class ConnectionLimiter:
    """At most `most`. One that asks nothing for `idle_seconds` is ended, a head that comes slowly too.

    Where a new one finds no room, the one that has been silent longest makes it: whoever holds many
    connections open shuts out nobody. Where none is silent, one that is being answered does with
    `evicts_asking`; else the new one is ended.
    """

    def __init__(self, most: int, idle_seconds: float, *, evicts_asking: bool) -> None:
        self._most = most
        self._evicts_asking = evicts_asking
        self._idle: Deadlines[asyncio.BaseTransport | None] = Deadlines(idle_seconds, self._abort)
        self._asking: dict[asyncio.BaseTransport | None, None] = {}

    def on_asked(self, transport: asyncio.BaseTransport | None) -> None:
        """It is to be answered. `on_answered` follows."""
        if self._idle.discard(transport):
            self._asking[transport] = None

    def on_answered(self, transport: asyncio.BaseTransport | None) -> None:
        """As far as the one who answers is concerned."""
        if transport in self._asking:
            del self._asking[transport]
            self._idle.add(transport)

    def on_made(self, transport: asyncio.Transport) -> bool:
        """Make room for it; whether there is some."""
        if len(self._idle) + len(self._asking) >= self._most:
            if not self._idle and not self._evicts_asking:
                return False
            self._abort(next(iter(self._idle or self._asking)))
        self._idle.add(transport)
        return True

    def on_lost(self, transport: asyncio.BaseTransport | None) -> None:
        """Forget it. Idempotent."""
        self._asking.pop(transport, None)
        self._idle.discard(transport)

    def _abort(self, transport: asyncio.BaseTransport | None) -> None:
        self.on_lost(transport)
        cast("asyncio.Transport", transport).abort()


HEADS_BYTES = 8 << 20


BODIES_BYTES = 32 << 20


FRAMES_BYTES = 32 << 20


LEAST_BYTES_PER_SECOND = 1024


RATE_SECONDS = 5.0


"""In each such time a body has to bring what the least rate says."""


MOST_RESTS = 12


"""For so many of them what it has brought before will do: networks stall."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one server."""

    most_connections: int = field(default_factory=most_connections)
    """By default half of the descriptors that the process may have, and at most 4,096."""
    idle_seconds: float = 75.0
    """Longer than most clients keep a connection; no head may take longer either."""
    evicts_asking: bool = False
    """Where no connection is silent, a new one has one ended that is being answered."""
    most_head_bytes: int = 16 << 10
    """Request line and headers together."""
    most_body_bytes: int = 0
    """Of those that are taken whole, where that may be more than the room for all."""


class SharedLimits:
    """All that its connections share."""

    def __init__(self, limits: Limits) -> None:
        self.most_head_bytes = limits.most_head_bytes
        self.connections = ConnectionLimiter(
            limits.most_connections, limits.idle_seconds, evicts_asking=limits.evicts_asking
        )
        bodies_bytes = max(BODIES_BYTES, limits.most_body_bytes * 5 // 4)
        self.heads: MemoryBudget[Connection] = MemoryBudget(HEADS_BYTES, _call("abort"))
        self.bodies: MemoryBudget[Connection] = MemoryBudget(bodies_bytes, _call("refuse_body"))
        self.frames: MemoryBudget[Connection] = MemoryBudget(FRAMES_BYTES, _call("end_socket"))
        self.least_lately = LEAST_BYTES_PER_SECOND * RATE_SECONDS
        self.most_lately = MOST_RESTS * self.least_lately
        self.unfinished: Deadlines[Connection] = Deadlines(RATE_SECONDS, _call("check_rate"))

    def forget(self, connection: "Connection") -> None:
        """It has ended."""
        for room in (self.heads, self.bodies, self.frames):
            room.give_all_back(connection)
        self.unfinished.discard(connection)


def _call(method: str) -> "Callable[[Connection], object]":
    return lambda connection: getattr(connection, method)()
