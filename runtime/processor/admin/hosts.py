"""What a server listens on, as those write it who ask it."""

from dataclasses import dataclass
from ipaddress import ip_address


def reachable(host: str, everywhere: str = "") -> str:
    """What goes before a colon and a port. `everywhere`, or loopback, stands for all of a machine's."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return reachable(everywhere or ("::1" if address.version == 6 else "127.0.0.1"))
    return f"[{address}]" if address.version == 6 else str(address)


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
