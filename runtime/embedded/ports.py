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
    """By listener, `others` among them; `port` is PLAINTEXT's, 0 for any."""
    free = _free_ports(port)
    return {"PLAINTEXT": port or next(free), **{name: next(free) for name in ("CONTROLLER", *others)}}


def claim_port(port: int) -> socket.socket:
    """Keep it from other servers of ours that are about to start, until this is closed.

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
    """One that nobody listens on now, and that no server of ours is about to."""
    return next(_free_ports())


def free_port_of_localhost() -> tuple[int, socket.socket | None]:
    """One for a server that clients call `localhost`, and that port of ::1, held so that nobody serves it.

    Clients may try ::1 first. None where this machine has none; else the caller closes it.
    """
    free = _free_ports()
    while True:
        port = next(free)
        held = socket.socket(socket.AF_INET6) if socket.has_ipv6 else None
        try:
            if held is not None:
                held.bind(("::1", port))  # and never listens: who connects is refused, and goes to HOST
        except OSError as error:
            assert held is not None
            held.close()
            if error.errno == errno.EADDRINUSE:
                continue
            held = None
        return port, held


def check_listener(pid: int, port: int) -> None:
    """UsageError where not the process, but somebody else serves `port` of HOST: it is to get no secret.

    Between the choice of a port and the server's start anybody on the machine may take it. Linux only.
    """
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended, which its owner notices
        if _listening(port) - look_into(pid, lambda: _sockets(pid)):
            raise UsageError(
                f"another process than our server listens on {HOST}:{port}: "
                "start again, or choose another port"
            )


def _listening(port: int) -> set[str]:
    """The kernel's numbers of the sockets that get what is sent to HOST."""
    return {it.number for it in listeners(port) if it.address in _REACHED_BY_HOST}


def _sockets(pid: int) -> set[str]:
    targets = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            targets.append(str(descriptor.readlink()))
    return {target[len("socket:[") : -1] for target in targets if target.startswith("socket:[")}


def _free_ports(but: int = 0) -> Iterator[int]:
    """UsageError where there is no other."""
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if port == but:
            continue
        try:
            mark = _marked("chosen", port)
        except OSError:
            continue
        if len(_marks) == _MARKED:
            os.close(_marks.popleft())
        _marks.append(mark.detach())
        yield port
    raise UsageError(f"no port of {HOST} is free")


def _marked(how: str, port: int) -> socket.socket:
    """No other process marks it so until this is closed. OSError where one has, or somebody listens there.

    As ports are: of the network's namespace, and gone with the process, however that ends. Not by that port
    itself, which its server is to take.
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
