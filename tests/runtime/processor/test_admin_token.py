"""Who may move a halted partition where others reach the admin server: who has the token."""

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from command import run
from processes import is_running
from replica import PROGRAM, Replica, replica, wait_until, write_function

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
        assert "HEADRACE_ADMIN_TOKEN" in run("partition", "skip", "t/0", "--admin", admin).stderr
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


def test_on_this_machine_nobody_is_asked_for_a_token_unless_one_is_given(tmp_path: Path) -> None:
    function = write_function(tmp_path / "f", HANDLER, "127.0.0.1:1", ["t"])
    with replica(function) as running:
        assert act(running.url, {})[0] == 404
        assert "HEADRACE_ADMIN_TOKEN" not in running.log
    given = ("env", "HEADRACE_ADMIN_TOKEN=open-sesame", *PROGRAM)
    with replica(function, program=given, name="2") as running:
        assert act(running.url, {})[0] == 401
