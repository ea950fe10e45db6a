"""Free ports on loopback for the listeners of embedded servers."""

import random
import socket
from collections.abc import Iterator

from headrace.runtime.errors import UsageError

HOST = "127.0.0.1"

# Below the range that the kernel gives to outgoing connections (32768 and up): a client that
# reconnects to a stopped broker's port in that range may meet itself and hold the port for good.
_PORTS = range(20000, 32000)


def choose_ports(port: int, *, sasl: bool, tls: bool) -> dict[str, int]:
    """A port per listener; `port` is PLAINTEXT's, 0 for any. UsageError when it is taken."""
    error = _refusal(port) if port else None
    if error is not None:
        raise UsageError(
            f"embedded Kafka cannot listen on {HOST}:{port}: {error.strerror}; "
            "stop what uses that port or choose another"
        )
    free = _free_ports(port)
    others = ["CONTROLLER", *["SASL"] * sasl, *["TLS"] * tls]
    return {"PLAINTEXT": port or next(free), **{name: next(free) for name in others}}


def free_port() -> int:
    """One that nobody listens on now."""
    return next(_free_ports())


def _free_ports(but: int = 0) -> Iterator[int]:
    candidates = random.SystemRandom().sample(_PORTS, len(_PORTS))
    return (it for it in candidates if it != but and _refusal(it) is None)


def _refusal(port: int) -> OSError | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker does
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error
    return None
