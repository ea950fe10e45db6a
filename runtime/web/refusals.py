"""Answers to requests that no handler sees: a line that says nothing of the server's insides."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

SERVER = "headrace"
"""The Server header: not which version of what."""
TOO_LONG = 413


class RefusedError(Exception):
    """A request that is answered with this status and line, after which its connection ends."""

    def __init__(self, status: int, said: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(said)
        self.status, self.said = status, said
        self.headers = headers or {}


class FinalResponse(web.Response):
    """The last response of its connection, which then lingers: a close at once could undo the response.

    A client that still sends gets a reset from a closed socket, and may lose what it hasn't read.
    """

    def __init__(self, refused: RefusedError, linger: Callable[[], Awaitable[None]]) -> None:
        """`linger` is awaited once the response is written: it lets the client read that for a moment."""
        headers = {"Server": SERVER, **refused.headers}
        super().__init__(status=refused.status, text=f"{refused.said}\n", headers=headers)
        self._linger = linger
        self.force_close()

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the end, and wait for the client to have it."""
        await super().write_eof(data)
        await self._linger()


def malformed() -> RefusedError:
    """Refuse what isn't HTTP, or not as HTTP has it: 400."""
    return RefusedError(400, "no request that HTTP has")


def head_too_long(most_bytes: int) -> RefusedError:
    """Refuse a request whose line and headers are too long together, or too many: 431."""
    return RefusedError(
        431, f"the head of the request is longer than {most_bytes} bytes, or of too many headers"
    )


def parser_refusal(error: BaseException | None, most_bytes: int, *, is_long: bool) -> RefusedError:
    """Refuse what aiohttp's parser has raised `error` for.

    `is_long` says that the head is too long, whatever the error says.
    """
    is_long = is_long or isinstance(error, LineTooLong) or "Too many headers" in str(error)
    return head_too_long(most_bytes) if is_long else malformed()


def body_too_long(most_bytes: int) -> RefusedError:
    """Refuse a body that is too long, by its Content-Length or as it comes: 413."""
    return RefusedError(TOO_LONG, f"the body is longer than {most_bytes} bytes")


def too_slow() -> RefusedError:
    """Refuse a body that comes below the least rate, or takes too long in all: 408."""
    return RefusedError(408, "the body took too long")


def out_of_memory() -> RefusedError:
    """Refuse a body because all bodies together take the memory that there is for them: 503."""
    return RefusedError(503, "too much is being sent: try again", {"Retry-After": "1"})
