"""Where a server listens: sockets, and what is said of them."""

import asyncio
import os
import resource
from collections.abc import Callable

from headrace.runtime.errors import UsageError

BACKLOG = 1024
_MOST_CONNECTIONS = 4096


class ListenError(UsageError):
    """The port, or the host, can't be used. One line."""


async def listen_on(
    protocol: Callable[[], asyncio.Protocol], host: str, port: int, *, is_shared: bool
) -> asyncio.Server:
    """`is_shared`: others do too, on the same port. Raises OSError."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(protocol, host, port, backlog=BACKLOG, reuse_port=is_shared or None)


def listen_error(error: OSError, host: str, port: int, *, who: str, instead: str) -> ListenError:
    """`who` can't, and what to do `instead`."""
    return ListenError(f"{who} can't listen on {host}:{port} ({_why(error)}): {instead}")


def most_connections() -> int:
    """Half of the descriptors that this process may have: the rest is for workers and sources."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MOST_CONNECTIONS, soft // 2) if soft > 0 else _MOST_CONNECTIONS


def url_of(listening: asyncio.Server) -> str:
    """With the port that it got."""
    host, port = listening.sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _why(error: OSError) -> str:
    """In the system's words; asyncio puts its own before them, and names that aren't found have no number."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
