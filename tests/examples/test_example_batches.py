"""examples/batches, as its README says it."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from replica import Replica, wait_until
from root import ROOT

FOLDER = ROOT / "examples/batches"
COUNT = 2000


@pytest.mark.full
def test_every_reading_is_one_row_even_if_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "readings.sqlite"
    monkeypatch.setenv("READINGS_FILE", str(database))
    monkeypatch.setenv("HEADRACE_PASS_ENV", "READINGS_FILE")
    running = Replica(FOLDER, tmp_path / "replica.txt", "--embedded-kafka")
    try:
        running.wait_ready()
        address = running.log.split("embedded Kafka at ")[1].split()[0]
        produce(address, range(COUNT))
        wait_until(lambda: len(rows(database)) > 0, about=running)
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        produce(address, range(COUNT, 2 * COUNT))
        wait_until(lambda: len(rows(database)) == 2 * COUNT, about=running)
        assert sorted(int(body) for body in rows(database)) == list(range(2 * COUNT))
        assert running.stop() == 0
        assert "one transaction" in running.log
    finally:
        running.kill()


def produce(address: str, numbers: range) -> None:
    command = [sys.executable, "-P", "-m", "headrace", "kafka", "produce", "--brokers", address]
    body = "".join(f"{number}\n" for number in numbers).encode()
    subprocess.run([*command, "--topic", "readings"], input=body, check=True, capture_output=True)


def rows(database: Path) -> list[str]:
    connection = sqlite3.connect(database, timeout=30)
    try:
        return [body for (body,) in connection.execute("SELECT body FROM readings")]
    finally:
        connection.close()


def test_the_readme_is_short_and_names_what_is_there() -> None:
    text = (FOLDER / "README.md").read_text()
    assert len(text.splitlines()) <= 15
    assert len((FOLDER / "readings.py").read_text().splitlines()) <= 40
    assert all(name in text for name in ("readings.py", "function.yaml", "--embedded-kafka"))
