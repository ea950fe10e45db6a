"""Limits on what the clients of one server may have it keep: connections, heads, bodies, WebSocket frames."""

import asyncio
import resource
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from headrace.runtime.deadlines import Deadlines
from headrace.runtime.web.memory_budget import MemoryBudget

C = TypeVar("C", bound=Hashable)

HEADS_BYTES = 8 << 20
BODIES_BYTES = 32 << 20
FRAMES_BYTES = 32 << 20
MIN_BYTES_PER_SECOND = 1024
RATE_SECONDS = 5.0
"""How often a body that isn't complete is checked: it has to have brought MIN_BYTES_PER_SECOND since."""
MAX_SAVED_CHECKS = 12
"""Number of checks for which bytes that came before may stand in: networks stall."""
_MAX_CONNECTIONS = 4096


def most_connections() -> int:
    """Return half of the descriptors that this process may have: the rest is for workers and sources."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # No limit is RLIM_INFINITY, which is -1.
    return min(_MAX_CONNECTIONS, soft // 2) if soft > 0 else _MAX_CONNECTIONS


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one server. Their defaults suit a server that many clients use."""

    most_connections: int = field(default_factory=most_connections)
    """Connections at a time; by default half of the process's descriptors, and at most 4,096."""
    idle_seconds: float = 75.0
    """How long a connection may ask nothing; no head may take longer either.

    The default is longer than most clients keep a connection.
    """
    evicts_asking: bool = False
    """Whether a new connection ends one that is being answered, where none is silent."""
    most_head_bytes: int = 16 << 10
    """Length of request line and headers together."""
    most_body_bytes: int = 0
    """Length of the longest body that is taken whole, where that may be beyond BODIES_BYTES."""


class ConnectionLimiter:
    """Keeps at most `most` connections of a server, and ends one that asks nothing for `idle_seconds`.

    A head that comes slowly counts as asking nothing. Where a new connection is one too many, the one that
    has been silent longest is ended: whoever holds many connections open shuts out nobody. Where none is
    silent, one that is being answered is ended with `evicts_asking`; else the new one is refused.
    """

    def __init__(self, most: int, idle_seconds: float, *, evicts_asking: bool) -> None:
        self._most = most
        self._evicts_asking = evicts_asking
        self._idle: Deadlines[asyncio.BaseTransport | None] = Deadlines(idle_seconds, self._abort)
        self._asking: dict[asyncio.BaseTransport | None, None] = {}

    def on_asked(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that a request is being answered; `on_answered` follows."""
        # A connection that asks again before it is answered stays where it is.
        if self._idle.discard(transport):
            self._asking[transport] = None

    def on_answered(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that the request's handler has returned: from now on the connection is idle."""
        if transport in self._asking:
            del self._asking[transport]
            self._idle.add(transport)

    def on_made(self, transport: asyncio.Transport) -> bool:
        """Take in a new connection, and end another one for it if need be; False where it is refused."""
        if len(self._idle) + len(self._asking) >= self._most:
            if not self._idle and not self._evicts_asking:
                return False
            self._abort(next(iter(self._idle or self._asking)))
        self._idle.add(transport)
        return True

    def on_lost(self, transport: asyncio.BaseTransport | None) -> None:
        """Forget a connection. Idempotent."""
        self._asking.pop(transport, None)
        self._idle.discard(transport)

    def _abort(self, transport: asyncio.BaseTransport | None) -> None:
        self.on_lost(transport)
        cast("asyncio.Transport", transport).abort()


class SharedLimits(Generic[C]):
    """Counts what all connections of one server hold together, and ends those that hold too much."""

    def __init__(
        self,
        limits: Limits,
        *,
        abort: Callable[[C], object],
        refuse_body: Callable[[C], object],
        end_socket: Callable[[C], object],
        check_rate: Callable[[C], object],
    ) -> None:
        """Each callable is given the connection concerned.

        The first three end a connection whose heads, bodies or WebSocket frames are too much for the memory
        that all share. `check_rate` is called each RATE_SECONDS for each connection in `unfinished`.
        """
        self.max_head_bytes = limits.most_head_bytes
        self.connections = ConnectionLimiter(
            limits.most_connections, limits.idle_seconds, evicts_asking=limits.evicts_asking
        )
        # The longest body has to fit, with what it costs beside its bytes.
        bodies_bytes = max(BODIES_BYTES, limits.most_body_bytes * 5 // 4)
        self.heads: MemoryBudget[C] = MemoryBudget(HEADS_BYTES, abort)
        self.bodies: MemoryBudget[C] = MemoryBudget(bodies_bytes, refuse_body)
        self.frames: MemoryBudget[C] = MemoryBudget(FRAMES_BYTES, end_socket)
        self.min_bytes_per_check = MIN_BYTES_PER_SECOND * RATE_SECONDS
        self.max_saved_bytes = MAX_SAVED_CHECKS * self.min_bytes_per_check
        self.unfinished: Deadlines[C] = Deadlines(RATE_SECONDS, check_rate)

    def forget(self, connection: C) -> None:
        """Count nothing of a connection any more: it has ended, or is being ended."""
        for budget in (self.heads, self.bodies, self.frames):
            budget.release_all(connection)
        self.unfinished.discard(connection)
