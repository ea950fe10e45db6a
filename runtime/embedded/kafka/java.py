"""How Java runs in the embedded broker's folder: the tools of Kafka and the JDK, and the broker."""

import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.runtime.embedded.java import dying_with_parent, find_java
from headrace.runtime.embedded.kafka.jars import class_path, kafka_jars
from headrace.runtime.embedded.subprocesses import run_program
from headrace.runtime.errors import BrokerError

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
        """Use the archive (Java ignores a stale one), or write one at exit where there is none."""
        if self.path.is_file():
            return f"-XX:SharedArchiveFile={self.path}"
        return f"-XX:ArchiveClassesAtExit={self.partial}"

    def publish(self, exit_code: int) -> None:
        """A broker that ended by SIGTERM wrote its archive completely. A speed-up: may fail."""
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
        """What a Java program printed. Blocks; raises BrokerError with the program's last lines."""
        command = dying_with_parent([str(self.executable), *_OPTIONS, *arguments])
        done = run_program(command, cwd=self.folder)
        if done.returncode != 0:
            said = last_log_lines(done.stdout + done.stderr)
            raise BrokerError(f"cannot prepare the embedded Kafka in {self.folder}: {said}")
        return done.stdout

    def broker_command(self, heap_mib: int) -> list[str]:
        """The broker, with `broker.properties` of its folder."""
        return [
            str(self.executable),
            f"-Xmx{heap_mib}m",
            *_OPTIONS,
            self.archive.option,
            "-XX:+ExitOnOutOfMemoryError",
            f"{_LOG}.defaultLogLevel=warn",
            f"{_LOG}.showDateTime=true",
            f"{_LOG}.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
            "-cp",
            class_path(self.jars),
            "kafka.Kafka",
            "broker.properties",
        ]


def find_broker_java(folder: Path, port: int) -> BrokerJava:
    """This machine's Java and Kafka's jars. Blocks; UsageError where either cannot be had.

    `port` is one that only this broker has: it tells its unfinished archive from another's.
    """
    java = find_java()
    jars = kafka_jars(java)
    build = re.sub(r"[^\w.+-]", "_", java.build)  # an archive fits one Kafka on one very Java
    path = jars / f"java-{build}.jsa"
    archive = ClassDataArchive(path, path.with_suffix(f".{os.getpid()}-{port}.partial"))
    return BrokerJava(java.executable, jars, folder, archive)


def last_log_lines(log: str) -> str:
    """The last lines that name a cause, in one line: without stack frames."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and line[0] != "\t"]
    return " | ".join(lines[-5:]) or "it said nothing"
