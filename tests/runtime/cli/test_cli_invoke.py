"""`headrace invoke`: against a running function, and against servers that say what they shouldn't."""

import http.server
import json
import subprocess
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from forked import PROGRAM
from replica import Replica, replica

from headrace.runtime.cli.running.admin_client import _from_here
from headrace.runtime.cli.running.invoke import invoke as command
from headrace.runtime.errors import HeadraceError

ECHO = """
    import json

    def handler(context, event):
        if event.path == "/raw":
            return context.Response(body=bytes(range(256)), content_type="application/octet-stream")
        if event.path == "/status":
            return int(event.fields["is"]), {"why": "so"}
        if event.path == "/control":
            return context.Response(body="a\\x1b[2Jb\\tc\\r\\nd", headers={"X-A": "1"})
        if event.path == "/not-json":
            return context.Response(body="{", content_type="application/json")
        said = {"method": event.method, "path": event.path, "fields": event.fields}
        said["who"] = event.headers.get("X-Who")
        said["type"], said["body"] = event.content_type, event.body
        if isinstance(event.body, bytes):
            said["body"] = event.body.decode(errors="replace")
        return said
"""
SLOW = """
    import time

    def handler(context, event):
        time.sleep(3600)
"""
WORKERS = {"echo": ECHO, "slow": SLOW}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    folder = tmp_path_factory.mktemp("functions")
    for name, handler in WORKERS.items():
        (folder / name).mkdir()
        (folder / name / f"{name}_code.py").write_text(textwrap.dedent(handler))
        trigger = {
            "kind": "http",
            "workerTerminationTimeout": "100ms",
            "attributes": {"port": 0, "host": "0.0.0.0"},
        }
        spec = {"handler": f"{name}_code:handler", "triggers": {"web": trigger}}
        (folder / name / "function.yaml").write_text(
            yaml.safe_dump({"metadata": {"name": name}, "spec": spec})
        )
    with replica(folder / "echo", str(folder / "slow")) as found:
        yield found.wait_ready()


def invoke(running: Replica, *arguments: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    words = [*PROGRAM, "invoke", *arguments, "--admin", running.url]
    return subprocess.run(words, input=given, capture_output=True, timeout=120, check=False)


def answered(running: Replica, *arguments: str, given: bytes = b"") -> Any:
    """What the handler says that it got."""
    done = invoke(running, *arguments, "--raw", given=given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusal(code: int, *arguments: str) -> str:
    """The line with which the command ends, by this exit code."""
    result = CliRunner().invoke(command, arguments)
    if isinstance(result.exception, HeadraceError):
        assert result.exception.exit_code == code
        assert "\n" not in str(result.exception)
        return str(result.exception)
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == code
    return result.stderr.splitlines()[-1]


def test_the_answer_is_printed_with_status_headers_and_body(running: Replica) -> None:
    done = invoke(running, "echo", "--path", "/orders/7?x=1&y=a b", "--header", "X-Who: Ada")
    assert (done.returncode, done.stderr) == (0, b"")
    status, _, head, *rest = done.stdout.decode().splitlines()
    assert (status, head) == ("200 OK", "> Response headers:")
    assert "Content-Type = application/json" in rest[: rest.index("")]
    assert rest[rest.index("") + 1] == "> Response body:"
    body = rest[rest.index("") + 2 :]
    assert body[1].startswith('    "')  # laid out
    assert json.loads("\n".join(body)) == {
        "method": "GET",
        "path": "/orders/7",
        "fields": {"x": "1", "y": "a b"},
        "who": "Ada",
        "type": "",
        "body": "",
    }


@pytest.mark.full_but("arguments7--DELETE--", "arguments4--POST-text/csv-3", "arguments3--POST-text/csv-3")
@pytest.mark.parametrize(
    ("arguments", "given", "method", "content_type", "body"),
    [
        (["--body", "three for Ada"], b"", "POST", "text/plain", "three for Ada"),
        (["--body", '{"amount": 3}'], b"", "POST", "application/json", {"amount": 3}),
        (["--body", ""], b"", "POST", "text/plain", ""),
        (["--body", "3", "--content-type", "text/csv"], b"", "POST", "text/csv", "3"),
        (["--body", "3", "--header", "content-type:text/csv"], b"", "POST", "text/csv", "3"),
        (["--body", "x", "--method", "put"], b"", "PUT", "text/plain", "x"),
        (["--body-file", "-"], "grüße".encode(), "POST", "text/plain", "grüße"),
        (["--method", "DELETE"], b"", "DELETE", "", ""),
    ],
)
def test_an_event_is_as_the_options_say(  # noqa: PLR0917  # a column each
    running: Replica, arguments: list[str], given: bytes, method: str, content_type: str, body: object
) -> None:
    said = answered(running, "echo", *arguments, given=given)
    assert (said["method"], said["type"], said["body"]) == (method, content_type, body)


def test_a_body_may_be_a_file(running: Replica, tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"amount": 3}')
    assert answered(running, "echo", "--body-file", str(tmp_path / "order.json"))["body"] == {"amount": 3}


def test_raw_prints_the_bytes_of_the_body(running: Replica) -> None:
    assert invoke(running, "echo", "--path", "/raw", "--raw").stdout == bytes(range(256))


def test_what_a_terminal_would_obey_is_spelled_out(running: Replica) -> None:
    lines = invoke(running, "echo", "--path", "/control").stdout.decode().splitlines()
    assert lines[-2:] == ["a\\x1b[2Jb\tc", "d"]
    assert invoke(running, "echo", "--path", "/not-json").stdout.decode().splitlines()[-1] == "{"


@pytest.mark.full_but("599-5", "200-0")
@pytest.mark.parametrize(("status", "code"), [(200, 0), (302, 0), (399, 0), (400, 5), (404, 5), (599, 5)])
def test_the_exit_code_is_that_of_the_status(running: Replica, status: int, code: int) -> None:
    done = invoke(running, "echo", "--path", f"/status?is={status}")
    assert (done.returncode, done.stderr) == (code, b"")
    assert done.stdout.startswith(str(status).encode())
    assert json.loads(done.stdout.split(b"body:\n")[1]) == {"why": "so"}


def test_a_function_that_does_not_answer_is_given_up(running: Replica) -> None:
    line = refusal(1, "slow", "--timeout", "500ms", "--admin", running.url)
    assert line.startswith("slow at http://127.0.0.1:")
    assert line.endswith("did not answer in 0.5 s")


def test_a_function_that_is_not_there_names_those_that_are(running: Replica) -> None:
    line = refusal(4, "orders", "--admin", running.url)
    assert line == (f"no function orders runs at {running.url}; those that can be called there: echo, slow")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--body", "a", "--body-file", "b"], "--body and --body-file"),
        (["--body-file", "/nowhere"], "'/nowhere' can't be read: No such file or directory"),
        (["--header", "nothing"], "'nothing' is not NAME:VALUE"),
        (["--header", "a b:c"], "is not NAME:VALUE"),
        (["--header", "a:b\nc:d"], "is not NAME:VALUE"),
        (["--body", "x", "--content-type", "a\nb:c"], "which HTTP can't say"),
        (["--method", "GE T"], "is no method of HTTP"),
        (["--timeout", "5"], "write 5s"),
        (["--timeout", "0"], "leaves no time"),
        (["--admin", "x"], "--admin has 'x', which is no URL"),
    ],
)
def test_a_mistake_in_the_command_is_one_line(arguments: list[str], said: str) -> None:
    assert said in refusal(2, "echo", *arguments)


@contextmanager
def serving(status: int, body: bytes) -> Iterator[str]:
    """A server that answers everything so."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """No lines on the test's output."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"hello"),
        (404, b"{}"),
        (500, b'{"functions": [], "replicas": []}'),
        (200, b"[]"),
        (200, b'{"functions": ["f"]}'),
        (200, b'{"functions": 7, "replicas": []}'),
        (200, b'{"functions": ["f"], "replicas": [{"triggers": [{"function": "f", "url": "http://[:1"}]}]}'),
        (200, b'{"functions": ["f"], "replicas": [{"triggers": [{"function": "f", "url": 7}]}]}'),
        (200, b"[" * 100_000),
    ],
)
def test_what_is_no_admin_server_is_told_apart(status: int, body: bytes) -> None:
    with serving(status, body) as url:
        line = refusal(1, "f", "--admin", url)
    assert line.startswith(f"what answers at {url} is no admin server")


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        ([], 1, "f is starting: its triggers aren't there yet"),
        ([{"function": "f", "url": None}], 1, "f is starting: its http trigger doesn't listen yet"),
        ([{"function": "f", "kind": "kafka-cluster"}], 4, "function f has no http trigger"),
    ],
)
def test_a_function_that_cannot_be_called_yet_is_one_line(rows: list[Any], code: int, said: str) -> None:
    status = {"functions": ["f"], "replicas": [{"triggers": rows}]}
    with serving(200, json.dumps(status).encode()) as url:
        assert said in refusal(code, "f", "--admin", url)


def test_nobody_there_is_one_line() -> None:
    assert "no running function has its admin server" in refusal(1, "f", "--admin", "http://127.0.0.1:1")
    row = {"function": "f", "url": "http://127.0.0.1:1"}
    status = {"functions": ["f"], "replicas": [{"triggers": [row]}]}
    with serving(200, json.dumps(status).encode()) as url:
        assert "nobody answers for f at http://127.0.0.1:1" in refusal(1, "f", "--admin", url)


@pytest.mark.parametrize(
    ("listens", "admin", "asked"),
    [
        ("http://0.0.0.0:8080", "http://127.0.0.1:8081", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "http://localhost:8081", "http://127.0.0.1:8080"),
        ("http://[::]:8080", "http://127.0.0.1:8081", "http://[::1]:8080"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8081", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "http://10.0.0.7:8081", "http://10.0.0.7:8080"),
        ("http://0.0.0.0:8080", "http://there.example:8081", "http://there.example:8080"),
        ("http://10.0.0.7:8080", "http://10.0.0.8:8081", "http://10.0.0.7:8080"),
    ],
)
def test_a_function_is_asked_where_it_is_reached_from_here(listens: str, admin: str, asked: str) -> None:
    assert _from_here("f", listens, admin) == asked


def test_another_machines_loopback_is_not_taken_for_ours() -> None:
    with pytest.raises(Exception, match="which only its own machine can reach"):
        _from_here("f", "http://127.0.0.1:8080", "http://10.0.0.7:8081")
