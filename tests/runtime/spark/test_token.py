"""The token that a server and its clients share: new at each start, said to nobody in between."""

import mmap
import os
import subprocess
import sys
import threading

import pytest

from headrace.runtime.spark.link import SharedToken
from headrace.runtime.worker.api import spark as worker_spark


def test_who_has_it_reads_what_is_so_now() -> None:
    token = SharedToken.create()
    theirs = SharedToken(token.fd)
    assert (theirs.text, theirs.parameter) == ("", "")
    token.publish("a;b")
    assert (theirs.text, theirs.parameter) == ("a;b", ";token=a%3Bb")
    token.withdraw()
    assert theirs.text == ""
    token.publish("c")
    assert theirs.text == "c"


def test_only_its_owner_writes_it() -> None:
    token = SharedToken.create()
    token.publish("mine")
    with pytest.raises(PermissionError):
        os.pwrite(token.fd, b"\0", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(token.fd, 0)
    with pytest.raises(PermissionError):
        os.ftruncate(token.fd, 0)
    assert token.text == "mine"


def test_what_a_process_that_has_it_starts_has_it_not() -> None:
    token = SharedToken.create()
    os.set_inheritable(token.fd, True)
    SharedToken.take(token.fd)
    look = f"import os; os.fstat({token.fd})"
    done = subprocess.run(
        [sys.executable, "-c", look], close_fds=False, capture_output=True, text=True, check=False
    )
    assert "Bad file descriptor" in done.stderr


def test_a_session_waits_for_a_server_that_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    token = SharedToken.create()
    threading.Timer(0.2, token.publish, ["new"]).start()
    assert worker_spark._await_token(token) == ";token=new"
    token.withdraw()
    monkeypatch.setattr(worker_spark, "_AWAY_SECONDS", 0.1)
    with pytest.raises(TimeoutError, match="Spark has not come back"):
        worker_spark._await_token(token)
