"""Addresses of servers: where one listens, and what is said where it can't."""

import os
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from headrace.runtime.errors import UsageError


class ListenError(UsageError):
    """The port, or the host, can't be used. One line."""


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host and a port, at which people and probes reach a server. Port 0 takes a free one."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


def host_in_url(host: str, everywhere: str = "") -> str:
    """Return `host` as a URL has it before its port: IPv6 in brackets.

    An address that stands for all of a machine's becomes `everywhere`, or loopback where that is empty.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return host_in_url(everywhere or ("::1" if address.version == 6 else "127.0.0.1"))
    return f"[{address}]" if address.version == 6 else str(address)


# Asked for each request, by a name that clients choose: hence the bound.
@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen_error(error: OSError, host: str, port: int, *, who: str, instead: str) -> ListenError:
    """Return the error to raise where `who` can't listen; it says what to do `instead`."""
    return ListenError(f"{who} can't listen on {host}:{port} ({_why(error)}): {instead}")


def _why(error: OSError) -> str:
    # In the system's words; asyncio puts its own before them, and names that aren't found have no number.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
