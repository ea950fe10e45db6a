"""Who may move a halted partition where others reach the admin server: who has the token."""

import fcntl
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from command import one_line, run
from forked import PROGRAM
from neighbour import needs_neighbour, said_by_neighbour
from processes import is_running
from replica import Replica, replica, wait_until, write_function

from headrace.runtime.admin.token import find_token, kept_for_commands
from headrace.runtime.cli.running.admin_client import auth_headers

HANDLER = "def handler(context, event): ..."


def act(url: str, headers: dict[str, str]) -> tuple[int, str]:
    request = urllib.request.Request(
        f"{url.replace('0.0.0.0', '127.0.0.1')}/api/partitions/t/0/skip",
        data=b"{}",
        headers={"Content-Type": "application/json", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def logged_tokens(running: Replica) -> list[str]:
    wait_until(lambda: "admin server at" in running.log, about=running)
    wait_until(lambda: "HEADRACE_ADMIN_TOKEN" in running.log or not is_running(running.process.pid))
    return re.findall(r"HEADRACE_ADMIN_TOKEN=(\S+)$", running.log, re.MULTILINE)


@pytest.mark.full_but("1")
@pytest.mark.parametrize("replicas", ["1", "2"])
def test_beyond_this_machine_only_the_token_of_the_log_moves_a_partition(
    tmp_path: Path, replicas: str
) -> None:
    function = write_function(tmp_path / "f", HANDLER, "127.0.0.1:1", ["t"])
    arguments = ("--admin-host", "0.0.0.0", "--replicas", replicas)
    short = ("env", "TMPDIR=/tmp", *PROGRAM)  # for the replicas' sockets
    with replica(function, *arguments, program=short) as running:
        status, said = act(running.url, {})
        assert (status, "HEADRACE_ADMIN_TOKEN" in said) == (401, True)
        assert act(running.url, {"Authorization": "Bearer guessed"})[0] == 401
        assert running.get("/live")[0] == 200
        (token,) = logged_tokens(running)
        # Replicas that are starting don't answer yet.
        wait_until(lambda: act(running.url, {"Authorization": f"Bearer {token}"})[0] == 404, about=running)
        admin = running.url.replace("0.0.0.0", "127.0.0.1")
        nobodys = ("env", "XDG_STATE_HOME=/dev/null", *PROGRAM)
        refused = run("partition", "skip", "t/0", "--admin", admin, program=nobodys)
        assert "HEADRACE_ADMIN_TOKEN" in refused.stderr
        moved = run("partition", "skip", "t/0", "--admin", admin, "--admin-token", token)
        assert moved.returncode == 4, moved.stderr


def test_a_token_that_is_given_is_not_shown_to_the_log_or_the_handler(tmp_path: Path) -> None:
    handler = """
        import os

        write(str("HEADRACE_ADMIN_TOKEN" in os.environ))

        def handler(context, event): ...
    """
    function = write_function(tmp_path / "f", handler, "127.0.0.1:1", ["t"], workers=1)
    given = ("env", "HEADRACE_ADMIN_TOKEN=open-sesame", *PROGRAM)
    with replica(function, "--admin-host", "0.0.0.0", program=given) as running:
        assert act(running.url, {})[0] == 401
        wait_until((function / "log").exists, about=running)
        assert act(running.url, {"Authorization": "bearer open-sesame"})[0] == 404
        assert "open-sesame" not in running.log
    assert (function / "log").read_text() == "False\n"


def test_on_this_machine_only_the_user_who_runs_it_moves_a_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    function = write_function(tmp_path / "f", HANDLER, "127.0.0.1:1", ["t"])
    with replica(function) as running:
        assert act(running.url, {})[0] == 401
        file = tmp_path / "headrace" / f"admin-{urlsplit(running.url).port}"
        assert file.stat().st_mode & 0o777 == 0o600
        token = file.read_text()
        assert act(running.url, {"Authorization": f"Bearer {token}"})[0] == 404
        assert run("partition", "skip", "t/0", "--admin", running.url).returncode == 4
        wait_until(lambda: str(file) in running.log, about=running)
        assert token not in running.log
        assert running.stop() == 0
    assert not file.exists()
    given = ("env", "HEADRACE_ADMIN_TOKEN=open-sesame", *PROGRAM)
    with replica(function, program=given, name="2") as running:
        assert act(running.url, {})[0] == 401
        assert not list(file.parent.iterdir())


@needs_neighbour
def test_another_user_of_this_machine_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    function = write_function(tmp_path / "f", HANDLER, "127.0.0.1:1", ["t"])
    with replica(function) as running:
        file = tmp_path / "headrace" / f"admin-{urlsplit(running.url).port}"
        assert said_by_neighbour(_SKIPS, running.url) == "401"
        assert "PermissionError" in said_by_neighbour("import sys; open(sys.argv[1])", file)


_SKIPS = """
import sys, urllib.error, urllib.request
post = urllib.request.Request(
    sys.argv[1] + "/api/partitions/t/0/skip", data=b"{}", headers={"Content-Type": "application/json"}
)
try:
    print(urllib.request.urlopen(post).status)
except urllib.error.HTTPError as refused:
    print(refused.code)
"""


def test_a_file_that_others_have_planted_is_neither_read_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    url, folder = "http://127.0.0.1:8081", tmp_path / "headrace"
    folder.mkdir()
    planted, elsewhere = folder / "admin-8081", tmp_path / "elsewhere"
    os.mkfifo(planted)
    assert find_token(url) == ""
    planted.unlink()
    planted.symlink_to(elsewhere)
    assert find_token(url) == ""
    with kept_for_commands("secret", url) as path:
        assert path is None
    assert not elsewhere.exists()
    planted.unlink()
    planted.write_text("guessed")  # everybody may read it
    assert find_token(url) == ""


@contextmanager
def listening(host: str, uid: int = -1) -> Iterator[int]:
    """At a free port, as that user."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::")
    except OSError as error:
        pytest.skip(f"this machine has no {host}: {error}")
    with server:
        os.fchown(server.fileno(), uid, -1)
        yield server.getsockname()[1]


def test_what_a_killed_run_has_left_is_swept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    left = tmp_path / "headrace" / "admin-1"
    left.parent.mkdir()
    left.write_text("old")
    with (
        listening("127.0.0.1") as port,
        kept_for_commands("one", f"http://127.0.0.1:{port}") as one,
        kept_for_commands("two", "http://[::1]:3"),
    ):
        assert not left.exists()
        assert one is not None
        assert find_token(f"http://localhost:{port}") == one.read_text() == "one"


def test_who_looks_as_a_run_begins_costs_it_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "headrace").mkdir()
    left = tmp_path / "headrace" / "admin-1"
    left.touch(0o600)
    looks = left.open()
    fcntl.flock(looks, fcntl.LOCK_EX)
    monkeypatch.setattr("headrace.runtime.admin.token.sleep", lambda _: looks.close())
    with kept_for_commands("one", "http://127.0.0.1:1") as path:
        assert path is not None


def test_where_the_kernel_tells_nothing_a_runs_token_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("headrace.runtime.users._SOCKET_TABLES", (str(tmp_path), str(tmp_path / "none")))
    with kept_for_commands("one", "http://127.0.0.1:1"):
        assert find_token("http://127.0.0.1:1") == "one"


_KEEPS = """
import sys
from headrace.runtime.cli.running.admin_client import auth_headers
from headrace.runtime.admin.token import kept_for_commands
with kept_for_commands("secret", sys.argv[1]):
    print("kept", flush=True)
    sys.stdin.read()
"""


def test_the_token_of_a_run_that_was_killed_is_sent_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with listening("127.0.0.1") as port:
        url = f"http://127.0.0.1:{port}"
        keeps = [sys.executable, "-c", _KEEPS, url]
        with subprocess.Popen(keeps, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as its_run:
            assert its_run.stdout is not None
            assert its_run.stdout.readline() == b"kept\n"
            assert auth_headers(url, "") == {"Authorization": "Bearer secret"}
            its_run.kill()
        assert auth_headers(url, "") == {}
        assert list((tmp_path / "headrace").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
@pytest.mark.parametrize(
    ("theirs", "asked", "is_sent"),
    [
        ("127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "localhost", False),
        ("0.0.0.0", "127.0.0.1", False),
        ("::", "127.0.0.1", False),
        ("::1", "localhost", False),
        ("::1", "[::1]", False),
        ("127.0.0.2", "127.0.0.1", True),
    ],
)
def test_a_token_goes_to_no_other_users_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str, asked: str, *, is_sent: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with listening(theirs, 65534) as port, ExitStack() as stack:
        url = f"http://{asked}:{port}"
        if is_sent or theirs == "::1":
            ours = stack.enter_context(socket.socket())
            ours.bind(("127.0.0.1", port))
            ours.listen()
        with kept_for_commands("secret", url):
            assert bool(auth_headers(url, "")) == is_sent


def test_an_empty_host_is_not_everywhere(tmp_path: Path) -> None:
    function = write_function(tmp_path / "f", HANDLER, "127.0.0.1:1", ["t"])
    refused = run("run", str(function), "--admin-host", "", "--admin-port", "0")
    assert "--admin-host is empty" in one_line(refused, 2)
