"""The embedded Spark that tests share, and a look at its process."""

import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml
from broker import Broker
from effort import IS_FULL
from function_files import VALID, load_text
from replica import write_function

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.embedded.spark.server import SparkServer
from headrace.runtime.spark.link import Endpoint, SparkLink
from headrace.runtime.spark.sessions import _channel, interrupt_request

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_LISTENING = "0A"
# Tests want a Java that is soon up; what they compute is nothing, but for large batches in some of all tests.
_MEMORY = "2g" if IS_FULL else "700m"
QUICK = {"conf": {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.driver.memory": _MEMORY}}
# A handler that has Spark count, and writes which record it had.
COUNTS = """
    def handler(context, event):
        count = context.spark.range(100).count()
        write(f"{event.topic} {event.shard_id} {event.offset} {count}")
"""


@dataclass(frozen=True, slots=True)
class SharedSpark:
    """The one of the run: others use it too."""

    link: SparkLink
    pid: int


@dataclass(frozen=True, slots=True)
class OwnSpark:
    """A server on an event loop of its own, in a thread that lives as long as it does."""

    server: SparkServer
    restarts: list[int]

    @property
    def link(self) -> SparkLink:
        return self.server.link

    @property
    def pid(self) -> int:
        assert self.server.pid is not None
        return self.server.pid

    def cpu_seconds(self) -> float:
        """That its process has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def spark_function(folder: Path, spark: object) -> FunctionSpec:
    """One with this spec.spark, which nobody runs."""
    return load_text(folder, yaml.safe_dump({**VALID, "spec": {**VALID["spec"], "spark": spark}}))


def use_spark(folder: Path, spark: object) -> Path:
    """Give a function on disk this spec.spark."""
    path = folder / "function.yaml"
    function = yaml.safe_load(path.read_text())
    function["spec"]["spark"] = spark
    path.write_text(yaml.safe_dump(function))
    return folder


def write_spark_function(
    folder: Path,
    handler: str,
    broker: Broker,
    topic: str,
    spark: SharedSpark | OwnSpark,
    **attributes: object,
) -> Path:
    """Its workers use that server."""
    write_function(folder, handler, broker.bootstrap, [topic], workers=1, **attributes)
    return use_spark(folder, {"remote": spark.link.url, "token": spark.link.token})


def listeners(pid: int) -> dict[int, str]:
    """The TCP ports that a process listens on, and their addresses in hexadecimal, as the kernel has them."""
    sockets = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and f"socket:[{fields[9]}]" in sockets:
                address, _, port = fields[1].partition(":")
                found[int(port, 16)] = address
    return found


def end_session(session: Any) -> None:
    """Of a worker: on the server, and here, where functions of the next session would go to this one."""
    type(session).stop(session)


def is_closed(url: str, session_id: str) -> bool:
    """Whether the server has dropped the session, and with it all that it ran."""
    endpoint = Endpoint.parse(url)
    request = interrupt_request(session_id, endpoint.params["user_id"])
    with _channel(endpoint) as channel:
        call = channel.unary_unary("/spark.connect.SparkConnectService/Interrupt")
        try:
            call(request, timeout=5)
        except grpc.RpcError as error:
            return "SESSION_CLOSED" in str(error)
    return False


@contextmanager
def running_spark(spec: object = QUICK) -> Iterator[OwnSpark]:
    """Started as `headrace run` starts it, with this spec.spark."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="spark-server")
    thread.start()
    restarts: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        server = SparkServer([spark_function(Path(folder), spec)], lambda: restarts.append(1))
        try:
            started: Future[None] = asyncio.run_coroutine_threadsafe(server.start(), loop)
            started.result()
            yield OwnSpark(server, restarts)
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
