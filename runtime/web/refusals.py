"""What clients get whose requests no handler sees: a line that says nothing of the server's insides."""

from collections.abc import Mapping
from typing import Protocol

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

SERVER = "headrace"
"""Not which version of what."""
TOO_LONG = 413


class Lingers(Protocol):
    """A connection that has said its last word."""

    async def linger(self) -> None:
        """Let the client read that, whatever it still sends, for a moment."""


class RefusedError(Exception):
    """Its request is answered so, and its connection ends."""

    def __init__(self, status: int, said: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(said)
        self.status, self.said = status, said
        self.headers = headers or {}


class FinalResponse(web.Response):
    """The last one of its connection. Who still sends gets it nevertheless: a close at once would undo it."""

    def __init__(self, connection: Lingers, refused: RefusedError) -> None:
        headers = {"Server": SERVER, **refused.headers}
        super().__init__(status=refused.status, text=f"{refused.said}\n", headers=headers)
        self._connection = connection
        self.force_close()

    async def write_eof(self, data: bytes = b"") -> None:
        """And wait for the client to have it."""
        await super().write_eof(data)
        await self._connection.linger()


def malformed() -> RefusedError:
    """No HTTP, or not as HTTP has it."""
    return RefusedError(400, "no request that HTTP has")


def head_too_long(most_bytes: int) -> RefusedError:
    """Request line and headers together, or too many of them."""
    return RefusedError(
        431, f"the head of the request is longer than {most_bytes} bytes, or of too many headers"
    )


def parser_refusal(error: BaseException | None, most_bytes: int, *, is_long: bool) -> RefusedError:
    """What aiohttp's parser raises; `is_long`: the head is, whatever it says."""
    is_long = is_long or isinstance(error, LineTooLong) or "Too many headers" in str(error)
    return head_too_long(most_bytes) if is_long else malformed()


def body_too_long(most_bytes: int) -> RefusedError:
    """Announced, or come."""
    return RefusedError(TOO_LONG, f"the body is longer than {most_bytes} bytes")


def too_slow() -> RefusedError:
    """By the least rate, or in all."""
    return RefusedError(408, "the body took too long")


def no_room() -> RefusedError:
    """Bodies that have not come whole take all the room there is for them."""
    return RefusedError(503, "too much is being sent: try again", {"Retry-After": "1"})
