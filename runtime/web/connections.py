"""How many connections a server keeps, and how long one may be silent: they cost descriptors."""

import asyncio
from typing import cast

from headrace.runtime.deadlines import Deadlines


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
