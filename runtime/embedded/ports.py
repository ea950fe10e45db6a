"""Free ports on loopback for the listeners of embedded servers."""

import errno
import os
import random
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.runtime.errors import UsageError
from headrace.runtime.users import listeners, look_into

HOST = "127.0.0.1"

# Below the range that the kernel gives to outgoing connections (32768 and up): a client that
# reconnects to a stopped broker's port in that range may meet itself and hold the port for good.
_PORTS = range(20000, 32000)

# Seconds pass between the choice of a port and the moment when its server listens. Meanwhile no other server
# of ours is to choose it: the last choices of this process are marked, by names that end with it.
_MARKED = 100
_marks: deque[int] = deque()

# As the kernel writes them: 127.0.0.1, 0.0.0.0, ::ffff:127.0.0.1 and ::.
_REACHED_BY_HOST = {"0100007F", "0" * 8, "0" * 16 + "FFFF00000100007F", "0" * 32}


def choose_ports(port: int, others: Sequence[str] = ()) -> dict[str, int]:
    """Return a port for each of a broker's listeners, also `others`; `port` is PLAINTEXT's, 0 for any."""
    free = _free_ports(port)
    return {"PLAINTEXT": port or next(free), **{name: next(free) for name in ("CONTROLLER", *others)}}


def claim_port(port: int) -> socket.socket:
    """Keep a port from other servers of ours that are about to start, until the socket returned is closed.

    UsageError where one of them has it, or somebody listens there.
    """
    try:
        return _marked("port", port)
    except OSError as error:
        raise UsageError(
            f"embedded Kafka cannot listen on {HOST}:{port}: {error.strerror}; "
            "stop what uses that port or choose another"
        ) from error


def free_port() -> int:
    """Return a port that nobody listens on now, and that no server of ours is about to."""
    return next(_free_ports())


def free_port_of_localhost() -> tuple[int, socket.socket | None]:
    """Return a port for a server that clients call `localhost`, and a socket that holds the same port of ::1.

    Clients may try ::1 first, so nobody else may serve that port there. The caller closes the socket; it is
    None where this machine has no IPv6.
    """
    free = _free_ports()
    while True:
        port = next(free)
        holder = socket.socket(socket.AF_INET6) if socket.has_ipv6 else None
        try:
            if holder is not None:
                # It never listens: a client that tries ::1 is refused, and goes to HOST.
                holder.bind(("::1", port))
        except OSError as error:
            assert holder is not None
            holder.close()
            if error.errno == errno.EADDRINUSE:
                continue
            holder = None
        return port, holder


def check_listener(pid: int, port: int) -> None:
    """Check that the process serves `port` of HOST: nobody else may get a secret. UsageError if it doesn't.

    Between the choice of a port and the server's start anybody on the machine may take it. Linux only.
    """
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended, which its owner notices
        if _listening(port) - look_into(pid, lambda: _sockets(pid)):
            raise UsageError(
                f"another process than our server listens on {HOST}:{port}: "
                "start again, or choose another port"
            )


def _listening(port: int) -> set[str]:
    """Return the kernel's numbers of the sockets that get what is sent to HOST."""
    return {it.number for it in listeners(port) if it.address in _REACHED_BY_HOST}


def _sockets(pid: int) -> set[str]:
    targets = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            targets.append(str(descriptor.readlink()))
    return {target[len("socket:[") : -1] for target in targets if target.startswith("socket:[")}


def _free_ports(but: int = 0) -> Iterator[int]:
    """Yield free ports in random order, but not `but`. UsageError where there is none left."""
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if port == but:
            continue
        try:
            mark = _marked("chosen", port)
        except OSError:
            continue
        if len(_marks) == _MARKED:
            os.close(_marks.popleft())
        # Only the descriptor, which nothing closes by itself: that is done above, once it is the oldest one.
        _marks.append(mark.detach())
        yield port
    raise UsageError(f"no port of {HOST} is free")


def _marked(how: str, port: int) -> socket.socket:
    """Mark a port until the socket returned is closed. OSError where it is marked, or somebody listens there.

    The mark is an abstract Unix socket. Like a port it belongs to the network namespace, and goes with the
    process however that ends. The port itself can't be held: its server is to take it.
    """
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0headrace-{how}-{port}")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker does
            probe.bind((HOST, port))
    except OSError:
        mark.close()
        raise
    return mark
