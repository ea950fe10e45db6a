"""Spark's token is a canary: what a run says, shows and keeps at level debug has none of it."""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from broker import Broker
from canaries import Canaries, files_with, watched_command_lines
from kafka_records import produce
from processes import java_children
from replica import Replica, lines, replica, wait_until, write_function
from spark import QUICK, SharedSpark, use_spark

HANDLER = """
    def handler(context, event):
        count = context.spark.range(100).count()
        write(f"{event.offset} {count}")
        if event.offset == 1:
            raise ValueError(f"a failure in {context.spark}")
"""
FAILS = {"maxAttempts": 2, "backoff": "10ms", "then": "skip"}
_TOKEN = b"SPARK_CONNECT_AUTHENTICATE_TOKEN="


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a run keeps what it keeps."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    return folder


def told(token: str) -> Canaries:
    canaries = Canaries()
    canaries.add("token", token[: len(token) // 2], token[len(token) // 2 :])
    assert canaries.found(f"so it is seen: {token}")
    return canaries


def token_of(running: Replica) -> str:
    """What the embedded server was started with: root may look."""
    (pid,) = java_children(running.process.pid)
    (found,) = (it for it in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if it.startswith(_TOKEN))
    return found.removeprefix(_TOKEN).decode()


def shown(running: Replica) -> str:
    return "".join(
        running.get(path)[1] for path in ("/api/status", "/ready", "/live", "/metrics", "/", "/api/recent")
    )


@pytest.mark.parametrize("whose", [pytest.param("embedded", marks=pytest.mark.full), "remote"])
def test_a_run_says_nothing_of_sparks_token(
    whose: str, broker: Broker, topic: str, spark: SharedSpark, own: Path
) -> None:
    is_embedded = whose == "embedded"
    folder = write_function(own.parent, HANDLER, broker.bootstrap, [topic], workers=1, onFailure=FAILS)
    use_spark(folder, QUICK if is_embedded else {"remote": spark.link.url, "token": spark.link.token})
    with watched_command_lines() as watch, replica(folder, "--log-level", "trace") as running:
        running.wait_ready()
        canaries = told(token_of(running) if is_embedded else spark.link.token)
        produce(broker, topic, 4, partitions=1)
        wait_until(lambda: any(line.startswith("3 ") for line in lines(folder)), about=running)
        said = shown(running)
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        produce(broker, topic, 4, partitions=1)
        wait_until(lambda: any(line.startswith("7 ") for line in lines(folder)), about=running)
        said += shown(running)
        kept = files_with(canaries, [own])
        assert running.stop() == 0
    assert "a failure in" in running.log
    assert canaries.found(running.log + said) == []
    assert kept == {}
    assert [line for line in watch.seen if canaries.found(line)] == []
