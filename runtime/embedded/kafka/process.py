"""The embedded broker's Java: tools that are run in its folder, and its process, from start to end."""

import asyncio
import os
import re
import signal
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.runtime.embedded.java import dying_with_parent, find_java
from headrace.runtime.embedded.kafka.jars import class_path, kafka_jars
from headrace.runtime.embedded.ports import HOST, check_listener
from headrace.runtime.embedded.server_process import ServerProcess, start_server
from headrace.runtime.embedded.subprocesses import run_program
from headrace.runtime.errors import BrokerError
from headrace.runtime.processes import for_java

# A quick start before speed: the collector without threads, and the quick one of the two compilers alone.
# Java writes no statistics to /tmp, and no warnings among what a tool prints, as that is read.
_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xlog:disable",
    "-Djava.io.tmpdir=tmp",
)
_LOG = "-Dorg.slf4j.simpleLogger"


@dataclass(frozen=True, slots=True)
class ClassDataArchive:
    """Parsed classes on disk, which halve a broker's start. `partial` is one broker's own, until it ends."""

    path: Path
    partial: Path

    @property
    def option(self) -> str:
        """The option by which Java uses the archive (a stale one is ignored), or writes one at exit."""
        if self.path.is_file():
            return f"-XX:SharedArchiveFile={self.path}"
        return f"-XX:ArchiveClassesAtExit={self.partial}"

    def publish(self, exit_code: int) -> None:
        """Keep the archive of a broker that has ended. A speed-up only, so failures are ignored."""
        # Only a broker that ended by SIGTERM has written its archive completely.
        with suppress(OSError):
            if exit_code == 128 + signal.SIGTERM:
                self.partial.rename(self.path)
            else:
                self.partial.unlink()


@dataclass(frozen=True, slots=True)
class BrokerJava:
    """A Java and Kafka's jars (`jars`), run with the broker's `folder` as their working directory."""

    executable: Path
    jars: Path
    folder: Path
    archive: ClassDataArchive

    def run_tool(self, *arguments: str) -> str:
        """Run a Java program; return what it printed. Blocks. BrokerError with the program's last lines."""
        command = dying_with_parent([str(self.executable), *_OPTIONS, *arguments])
        done = run_program(command, cwd=self.folder)
        if done.returncode != 0:
            log = last_log_lines(done.stdout + done.stderr)
            raise BrokerError(f"cannot prepare the embedded Kafka in {self.folder}: {log}")
        return done.stdout

    def broker_command(self, heap_mib: int) -> list[str]:
        """Return the command of the broker, with `broker.properties` of its folder."""
        return [
            str(self.executable),
            f"-Xmx{heap_mib}m",
            *_OPTIONS,
            self.archive.option,
            "-XX:+ExitOnOutOfMemoryError",  # half a broker would answer some and leave others waiting
            f"{_LOG}.defaultLogLevel=warn",
            f"{_LOG}.showDateTime=true",
            f"{_LOG}.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
            "-cp",
            class_path(self.jars),
            "kafka.Kafka",
            "broker.properties",
        ]


def find_broker_java(folder: Path, port: int) -> BrokerJava:
    """Find this machine's Java and Kafka's jars. Blocks; UsageError where either can't be had.

    `port` is one that only this broker has: it tells its unfinished archive from another's.
    """
    java = find_java()
    jars = kafka_jars(java)
    build = re.sub(r"[^\w.+-]", "_", java.build)  # an archive fits one Kafka on one very Java
    path = jars / f"java-{build}.jsa"
    archive = ClassDataArchive(path, path.with_suffix(f".{os.getpid()}-{port}.partial"))
    return BrokerJava(java.executable, jars, folder, archive)


def last_log_lines(log: str) -> str:
    """Return the last lines of a log that name a cause, in one line and without stack frames."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and line[0] != "\t"]
    return " | ".join(lines[-5:]) or "it said nothing"


_START_SECONDS = 60.0
_STOP_SECONDS = 15.0  # a broker stops in 0.2 s; in 2 s where it writes the class data archive
_POLL_SECONDS = 0.01
_LOG_FILE = "broker.log"


class BrokerProcess(ServerProcess):
    """A run of the broker."""

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
                # Somebody answers there: before anything is sent, it has to be our process that does.
                check_listener(self.pid, port)
        except TimeoutError as error:
            log = last_lines(self._java.folder)
            raise BrokerError(f"embedded Kafka is not ready after {_START_SECONDS:g} s: {log}") from error

    def kill(self) -> None:
        """End the process at once, if it hasn't ended."""
        super().kill()
        # However the broker ended: its unfinished archive must not stay.
        self._java.archive.publish(self._process.wait())


def last_lines(folder: Path) -> str:
    """Return the last lines of the log of the broker in `folder`, in one line."""
    try:
        return last_log_lines((folder / _LOG_FILE).read_text(errors="replace"))
    except OSError:
        return "no log"


async def _serves(port: int) -> bool:
    """Whether the broker answers a Metadata request (v1, no topics) with a broker in it.

    Later than an ApiVersions answer, which comes while the node is still fenced and would
    refuse to create topics.
    """
    # Size, key 3 (Metadata), version 1, an id, no client's name, no topics. The answer begins with its size,
    # the same id, and how many brokers it has.
    request = struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0)
    loop, answer = asyncio.get_running_loop(), b""
    with socket.socket() as link, suppress(OSError):
        link.setblocking(False)
        await loop.sock_connect(link, (HOST, port))
        await loop.sock_sendall(link, request)
        while len(answer) < 12 and (more := await loop.sock_recv(link, 12 - len(answer))):
            answer += more
    return len(answer) == 12 and bool(struct.unpack(">iii", answer)[2] > 0)
