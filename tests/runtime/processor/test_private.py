"""What a run keeps, and what it says in places that every user of the machine can read."""

import logging
import subprocess
from pathlib import Path

import pytest
from aiokafka.protocol.admin import SaslAuthenticateRequest_v1
from forked import PROGRAM
from processes import children_of
from replica import lines, replica, wait_until, write_function

from headrace.runtime.log import set_up_logging

HANDLER = """
    import os

    given = os.umask(0)
    os.umask(given)
    write(f"{given:03o} {'HEADRACE_REPLICA_SETS' in os.environ}")

    def handler(context, event): ...
"""
SECRET = ("--set", "triggers.records.attributes.sasl.password=canary")
CALLER = ("env", "TMPDIR=/tmp", "sh", "-c", 'umask 027; exec "$@"', "sh")


@pytest.mark.parametrize("replicas", ["1", "2"])
def test_handlers_write_as_the_caller_wants_and_replicas_get_secrets_in_private(
    tmp_path: Path, replicas: str
) -> None:
    function = write_function(tmp_path / "f", HANDLER, "127.0.0.1:1", ["t"], workers=1)
    program = (*CALLER, *PROGRAM)
    with replica(function, *SECRET, "--replicas", replicas, program=program) as running:
        wait_until(lambda: len(lines(function)) == int(replicas), about=running)
        assert lines(function) == ["027 False"] * int(replicas)
        assert "Umask:\t0077" in Path(f"/proc/{running.process.pid}/status").read_text()
        below = all_below(running.process.pid)
        assert len(below) >= int(replicas)
        assert not any(b"canary" in command_line(pid) for pid in below)
        assert f"can read the value of --set {SECRET[1].partition('=')[0]}" in running.log
        assert "canary" not in running.log


def all_below(pid: int) -> list[int]:
    below = children_of(pid)
    return below + [found for child in below for found in all_below(child)]


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_new_functions_files_are_as_the_caller_wants_them(tmp_path: Path) -> None:
    subprocess.run([*CALLER, *PROGRAM, "new", "clicks"], cwd=tmp_path, check=True)
    assert (tmp_path / "clicks").stat().st_mode & 0o777 == 0o750


def test_the_clients_lines_at_level_trace_have_no_password(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    set_up_logging("trace", "console")
    try:
        client = logging.getLogger("aiokafka.conn")
        client.debug("Request to %s:%d %d: %s", "h", 1, 2, SaslAuthenticateRequest_v1(b"\0me\0canary"))
        client.debug("Request to %s:%d %d: %s", "h", 1, 2, "another")
    finally:
        for handler in list(root.handlers):
            root.removeHandler(handler)
            handler.close()
        root.handlers, root.level = handlers, level
    said = capfd.readouterr().err
    assert "another" in said
    assert "canary" not in said
