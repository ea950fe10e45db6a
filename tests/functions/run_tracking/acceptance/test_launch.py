"""The whole of it by one command: a client logs to it, Spark sums it up, Ctrl-C ends it."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from replica import environment, wait_until

from headrace.runtime.embedded.ports import free_port

PACKAGE = "headrace.functions.run_tracking"


@pytest.mark.full
def test_one_command_runs_all_of_it(tmp_path: Path) -> None:
    ports = {name: str(free_port()) for name in ("FRONTIER_PORT", "BACKEND_PORT", "METRICS_PORT")}
    backend = f"http://127.0.0.1:{ports['BACKEND_PORT']}"
    variables = {**ports, "SUMMARIES_INTERVAL": "1s"}
    log = tmp_path / "log.txt"
    command = [sys.executable, "-P", "-m", PACKAGE, "--", "--admin-port", "0"]
    with log.open("wb") as output:
        running = subprocess.Popen(
            command, stdout=output, stderr=output, cwd=tmp_path, env=environment(**variables)
        )
    try:
        wait_until(lambda: "summaries: 1 worker loaded" in log.read_text() or running.poll() is not None)
        assert running.poll() is None, log.read_text()
        (said,) = (line for line in log.read_text().splitlines() if line.startswith("client "))
        client = [sys.executable, "-P", *said.split()[2:], "--runs", "2", "--steps", "50"]
        done = subprocess.run(
            client, capture_output=True, text=True, check=False, timeout=120, env=environment()
        )
        assert done.returncode == 0, done.stderr
        assert "items of 2 runs are acknowledged" in done.stdout
        wait_until(lambda: [run["active"] for run in ask(backend, "runs/")] == [False, False])
        wait_until(lambda: len({row["run"] for row in ask(backend, "summaries/runs")}) == 2)
        experiments = ask(backend, "summaries/experiments")
        assert {row["name"] for row in experiments} == {"loss", "accuracy"}
        assert {row["runs"] for row in experiments} == {2}
        with urllib.request.urlopen(backend, timeout=60) as page:
            assert b"<title>Runs</title>" in page.read()
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0, log.read_text()
    finally:
        running.kill()
        running.wait()
    assert "Traceback" not in log.read_text()


def ask(backend: str, path: str) -> Any:
    """Nothing while it doesn't answer."""
    try:
        with urllib.request.urlopen(f"{backend}/api/v1/rest/{path}", timeout=60) as answer:
            return json.loads(answer.read())
    except urllib.error.URLError:
        return []
