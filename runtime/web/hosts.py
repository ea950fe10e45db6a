"""What a server listens on, as those write it who ask it, and the names that it goes by."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit


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
