"""`headrace status` and `top` on a real run: a partition that flows, one that has halted, and a terminal."""

import http.server
import json
import os
import pty
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Broker
from command import one_line, run
from forked import PROGRAM
from kafka_records import produce
from replica import Replica, environment, replica, wait_until, write_function

from headrace.runtime.cli.running.top import _handled_rate

HALTS = """
    def handler(context, event):
        if event.shard_id == 1:
            raise ValueError("no such customer")
"""


@pytest.fixture
def running(broker: Broker, topic: str, tmp_path: Path) -> Iterator[Replica]:
    """Its partition 1 has halted at the first record, the others are done."""
    function = write_function(
        tmp_path / "f", HALTS, broker.bootstrap, [topic], onFailure={"maxAttempts": 1, "then": "halt"}
    )
    with replica(function) as found:
        found.wait_ready()
        produce(broker, topic, 80)
        wait_until(lambda: any(row["isStuck"] for row in found.trigger()["partitions"]), about=found)
        wait_until(lambda: sum(found.committed().values()) == 70, about=found)
        yield found


def test_a_run_is_shown_with_its_workers_its_partitions_and_what_has_halted(
    running: Replica, topic: str
) -> None:
    shown = run("status", "--admin", running.url)
    assert shown.returncode == 0, shown.stderr
    first, problem, hint, *rest = shown.stdout.splitlines()
    assert first == "f: not ready"
    assert f"{topic}/1 is halted at offset 0" in problem
    assert f"headrace partition retry {topic}/1" in hint
    assert "no such customer" in hint  # this user's token is found
    rows = [line.split() for line in rest]
    assert ["-", "f/records", "kafka-cluster", "2/2", "0", "0", "8", "10", "-"] in rows
    assert ["-", "f/records", f"{topic}/1", "any", "0", "10", "10", "0", "halted"] in rows
    assert ["-", "f/records", f"{topic}/2", "any", "10", "10", "0", "0", "active"] in rows
    assert (
        sum(row[3:] == [str(pid), "0", "0", "ready", "-"] for row in rows for pid in running.worker_pids())
        == 2
    )

    told = json.loads(run("status", "--admin", running.url, "--json").stdout)
    assert told["functions"] == ["f"]
    assert [row["lag"] for row in told["replicas"][0]["triggers"][0]["partitions"] if row["isStuck"]] == [10]


@pytest.mark.full
def test_top_appends_rows_in_a_pipe_what_has_halted_first(running: Replica, topic: str) -> None:
    shown = run("top", "--admin", running.url, "--count", "2", "--interval", "0.1")
    assert shown.returncode == 0, shown.stderr
    heads, *rows = (line.split() for line in shown.stdout.splitlines())
    assert heads[:6] == ["time", "replica", "trigger", "partition", "worker", "lag"]
    assert len(rows) == 2 * (1 + 8)
    of_all, halted = rows[9:11]
    assert (of_all[3:6], of_all[-2:]) == (["all", "2/2", "10"], ["1", "halted"])
    assert (halted[3:6], halted[6], halted[-1]) == ([f"{topic}/1", "any", "10"], "0", "halted")


def test_top_is_redrawn_on_a_terminal_and_ctrl_c_ends_it(running: Replica, topic: str) -> None:
    parent, child = pty.openpty()
    command = [*PROGRAM, "top", "--admin", running.url, "--interval", "0.1"]
    process = subprocess.Popen(
        command, stdin=child, stdout=child, stderr=child, env=environment(TERM="xterm", COLUMNS="150")
    )
    os.close(child)
    said = b""
    while said.count(b"\x1b[1A") < 30:  # several pictures, each over the one before
        said += os.read(parent, 65536)
    process.send_signal(signal.SIGINT)
    try:
        while data := os.read(parent, 65536):
            said += data
    except OSError:  # nobody has its other end any more
        pass
    os.close(parent)
    assert process.wait(60) == 0
    assert f"{topic}/1".encode() in said
    assert b"Traceback" not in said
    assert said.rstrip().endswith(b"\x1b[?25h")  # the cursor is there again


@pytest.mark.parametrize("command", ["status", "top"])
def test_a_run_that_is_not_there_is_one_line(command: str) -> None:
    with socket.socket() as silent:  # bound, not listening: refuses
        silent.bind(("127.0.0.1", 0))
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        line = one_line(run(command, "--admin", where), 1)
    assert line.startswith(f"headrace: no running function has its admin server at {where}")


class Asks(http.server.BaseHTTPRequestHandler):
    """As a proxy does before what it guards."""

    def do_GET(self) -> None:  # its name there
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b"who are you?")

    def log_message(self, *_: object) -> None:
        """Not to the terminal."""


@pytest.mark.parametrize("command", ["status", "top"])
def test_a_server_that_asks_for_a_sign_in_is_one_line(command: str) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Asks) as proxy:
        thread = threading.Thread(target=proxy.handle_request)
        thread.start()
        where = f"http://127.0.0.1:{proxy.server_port}"
        line = one_line(run(command, "--admin", where), 2)
        thread.join()
    assert line.startswith(f"headrace: {where} asks for a sign-in")


def test_a_rate_is_of_the_last_seconds() -> None:
    assert _handled_rate([]) == "-"
    assert _handled_rate([(1.0, 0, 10, 0)]) == "-"
    assert _handled_rate([(1.0 + second, 0, 100 * second**2, 0) for second in range(10)]) == "1300"
