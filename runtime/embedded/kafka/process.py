"""The embedded broker's process: spawned, awaited until it serves, ended."""

import asyncio
import socket
import struct
from contextlib import suppress
from pathlib import Path

from headrace.runtime.embedded.kafka.java import BrokerJava, last_log_lines
from headrace.runtime.embedded.ports import HOST, check_listener
from headrace.runtime.embedded.server_process import ServerProcess, start_server
from headrace.runtime.environment import for_java
from headrace.runtime.errors import BrokerError

_START_SECONDS = 60.0
_STOP_SECONDS = 15.0  # a broker stops in 0.2 s; in 2 s where it writes the class data archive
_POLL_SECONDS = 0.01
_LOG_FILE = "broker.log"


class BrokerProcess(ServerProcess):
    """One run of the broker."""

    def __init__(self, java: BrokerJava, *, heap_mib: int, lock_fd: int) -> None:
        self._java = java
        command, log = java.broker_command(heap_mib), java.folder / _LOG_FILE
        process = start_server(command, log, lock_fd, cwd=java.folder, env=for_java())
        super().__init__(process, _STOP_SECONDS)

    async def until_ready(self, port: int) -> None:
        """Return when the broker serves at `port`. BrokerError, with its last lines, when it does not."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await _serves(port):  # polled: a broker tells nobody that it is ready
                    if self._process.poll() is not None:
                        raise BrokerError(f"embedded Kafka did not start: {last_lines(self._java.folder)}")
                    await asyncio.sleep(_POLL_SECONDS)
                check_listener(self.pid, port)
        except TimeoutError as error:
            said = last_lines(self._java.folder)
            raise BrokerError(f"embedded Kafka is not ready after {_START_SECONDS:g} s: {said}") from error

    def kill(self) -> None:
        """End the process at once, if it hasn't ended."""
        super().kill()
        self._java.archive.publish(self._process.wait())


def last_lines(folder: Path) -> str:
    """What the broker in `folder` said last, in one line."""
    try:
        return last_log_lines((folder / _LOG_FILE).read_text(errors="replace"))
    except OSError:
        return "no log"


async def _serves(port: int) -> bool:
    """Whether the broker answers a Metadata request (v1, no topics) with a broker in it.

    Later than an ApiVersions answer, which comes while the node is still fenced and would
    refuse to create topics.
    """
    request = struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0)
    loop, answer = asyncio.get_running_loop(), b""
    with socket.socket() as link, suppress(OSError):
        link.setblocking(False)
        await loop.sock_connect(link, (HOST, port))
        await loop.sock_sendall(link, request)
        while len(answer) < 12 and (more := await loop.sock_recv(link, 12 - len(answer))):
            answer += more
    return len(answer) == 12 and bool(struct.unpack(">iii", answer)[2] > 0)
