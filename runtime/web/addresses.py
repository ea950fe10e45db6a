"""What a server listens on, as those write it who ask it, and the names that it goes by."""

import asyncio
import os
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from headrace.runtime.errors import UsageError


def reachable(host: str, everywhere: str = "") -> str:
    """What goes before a colon and a port. `everywhere`, or loopback, stands for all of a machine's."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return reachable(everywhere or ("::1" if address.version == 6 else "127.0.0.1"))
    return f"[{address}]" if address.version == 6 else str(address)


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether only this machine is meant."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """Where people and probes reach it. Port 0 takes a free one."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


class AllowedHosts:
    """What `Host` may say. A page may have its domain point here: to the browser, this is its server then."""

    def __init__(self, host: str, given: Iterable[str] = ()) -> None:
        """Of a server that listens at `host`. Beyond loopback, any name will do where none is given."""
        self.given = frozenset(name.lower() for name in given)
        """As they stand in a URL: without a port."""
        self._is_local = is_loopback(host)

    def refusal(self, asked: str | None) -> str:
        """Why what `Host` says is no name of the server's, in a line; empty where it is one."""
        if asked is None:  # no browser leaves it out; probes in HTTP/1.0 do
            return ""
        name = _name(asked)
        if is_loopback(name) or name in self.given:
            return ""
        if self._is_local:
            return f"{asked!r} is no name of this machine's own, such as localhost"
        # An address is nobody's to point elsewhere: probes ask by it.
        if not self.given or _is_address(name):
            return ""
        return f"{asked!r} is none of the names that this server is asked by"


@lru_cache(maxsize=64)  # most requests ask by the same one
def _name(asked: str) -> str:
    """Without the port, in lower case; empty where it can't be told."""
    try:
        return urlsplit(f"//{asked}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


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
