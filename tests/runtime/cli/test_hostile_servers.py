"""What answers instead of an admin server may say anything: no terminal obeys it, and it forges no line."""

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.runtime.cli.main import headrace
from headrace.runtime.cli.try_record.outcome import log_line
from headrace.runtime.errors import ConfigError, HeadraceError, Problem
from headrace.runtime.testing.results import LogLine

# A line break, an escape sequence, a C1 control, and an override of the reading direction.
EVIL = "x\nheadrace: all is well\r\x1b[2J\x9b1A\u202ey\u2028z\x08"
WORKER = {
    "index": 0,
    "pid": 1,
    "state": EVIL,
    "inFlight": 0,
    "restarts": 0,
    "running": EVIL,
    "runningRecords": [],
}
PARTITION = {
    "topic": EVIL,
    "partition": 0,
    "state": EVIL,
    "isStuck": True,
    "worker": None,
    "reason": EVIL,
    **dict.fromkeys(("committed", "committable", "end", "lag", "inFlight"), 0),
}
TRIGGER = {
    **dict.fromkeys(("function", "name", "kind", "url"), EVIL),
    "samples": [],
    "workers": [WORKER],
    "partitions": [PARTITION],
}
REPLICA = {"name": EVIL, "problems": [EVIL], "triggers": [TRIGGER]}
STATUS = {"functions": [EVIL], "replicas": [REPLICA], "done": [EVIL], "problem": EVIL}
COMMANDS = [("status",), ("top", "--count", "1"), ("partition", "skip", "t/0"), ("invoke", "f")]


class Impostor(http.server.ThreadingHTTPServer):
    """Answers each request with `status` and `body`."""

    status: int
    body: Any

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Once it has come."""
        request.recv(65536)
        text = json.dumps(self.body).encode()
        head = f"HTTP/1.1 {self.status} OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        request.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)


@pytest.fixture(scope="module")
def impostor() -> Iterator[Impostor]:
    with Impostor(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(impostor: Impostor, status: int, body: Any, arguments: tuple[str, ...]) -> Result:
    impostor.status, impostor.body = status, body
    return CliRunner().invoke(headrace, [*arguments, "--admin", f"http://127.0.0.1:{impostor.server_port}"])


def lines_of(result: Result) -> list[str]:
    """All that a terminal would get."""
    error = result.exception
    assert error is None or isinstance(error, HeadraceError | SystemExit), repr(error)
    said = result.output + (f"headrace: {error.shown}" if isinstance(error, HeadraceError) else "")
    lines = said.split("\n")
    assert all(line.isprintable() for line in lines), said
    return lines


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("status", [200, 401, 503])
def test_what_a_server_says_is_shown_and_not_obeyed(
    impostor: Impostor, command: tuple[str, ...], status: int
) -> None:
    lines = lines_of(run(impostor, status, STATUS, command))
    assert not any(line.startswith("headrace: all is well") for line in lines)
    spelled_out = "x\\nheadrace: all is well\\r\\x1b[2J\\x9b1A\\u202ey\\u2028z\\x08"
    assert any(spelled_out in line or "is no admin server" in line for line in lines)


def told_wrong() -> Iterator[Any]:
    wrongs: list[Any] = [None, 5, float("inf"), "text", [[]], {"a": 1}]
    for wrong in wrongs:
        yield wrong
        yield from ({**STATUS, key: wrong} for key in STATUS)
        yield from ({**STATUS, "replicas": [{**REPLICA, key: wrong}]} for key in REPLICA)
        for key in TRIGGER:
            yield {**STATUS, "replicas": [{**REPLICA, "triggers": [{**TRIGGER, key: wrong}]}]}
        for key in PARTITION:
            trigger = {**TRIGGER, "partitions": [{**PARTITION, key: wrong}]}
            yield {**STATUS, "replicas": [{**REPLICA, "triggers": [trigger]}]}


@pytest.mark.full_but("status", "partition")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_what_no_admin_server_says_is_one_line(impostor: Impostor, command: tuple[str, ...]) -> None:
    for body in told_wrong():
        lines_of(run(impostor, 200, body, command))


def test_an_error_of_several_lines_forges_none() -> None:
    assert HeadraceError(f"what was said: {EVIL}").shown.count("\n    headrace: all is well") == 1
    problems = [Problem("a\nb", 1, "spec", EVIL), Problem("c", 0, "", "is missing")]
    assert [line.split(":")[0] for line in ConfigError(problems).shown.split("\n")] == ["a\\nb", "c"]


def test_what_follows_in_a_handlers_line_stands_indented() -> None:
    shown = log_line(LogLine("INFO", "one\nt/0/0: ok after 0.1 ms, acked", {"a": "\u202e"}))
    assert shown == "INFO     one\n    t/0/0: ok after 0.1 ms, acked  a='\\u202e'"
