"""examples/async_http and examples/by_key, as their READMEs say it."""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from replica import Replica, wait_until
from root import ROOT

from headrace.runtime.embedded.ports import free_port

EXAMPLES = ROOT / "examples"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The slow one, on another port."""
    port = free_port()
    monkeypatch.setenv("SERVICE", f"http://127.0.0.1:{port}")
    command = [sys.executable, str(EXAMPLES / "async_http/service.py"), str(port)]
    with (
        (tmp_path / "service").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        wait_until(lambda: "Running on" in (tmp_path / "service").read_text())
        try:
            yield
        finally:
            process.kill()


def produce(running: Replica, topic: str, text: str, *options: str) -> None:
    address = running.log.split("embedded Kafka at ")[1].split()[0]
    command = [sys.executable, "-P", "-m", "headrace", "kafka", "produce", "--brokers", address]
    subprocess.run(
        [*command, "--topic", topic, *options], input=text.encode(), check=True, capture_output=True
    )


@pytest.mark.full
@pytest.mark.usefixtures("service")
def test_cities_are_asked_about_many_at_a_time(tmp_path: Path) -> None:
    running = Replica(EXAMPLES / "async_http", tmp_path / "log", "--embedded-kafka")
    try:
        running.wait_ready()
        produce(running, "cities", "".join(f"{number}\n" for number in range(300)))
        wait_until(lambda: running.log.count(" degrees") == 300, about=running)
        busy = [worker["running"] or "" for worker in running.trigger()["workers"]]
        assert len(busy) == 1
        assert running.stop() == 0
    finally:
        running.kill()


@pytest.mark.full
def test_payments_of_an_account_are_in_order_at_whichever_worker(tmp_path: Path) -> None:
    running = Replica(EXAMPLES / "by_key", tmp_path / "log", "--embedded-kafka")
    try:
        running.wait_ready()
        payments = [(account, amount) for amount in range(1, 16) for account in ("ada", "bob", "eve")]
        produce(running, "payments", "".join(f"{a}\t{n}\n" for a, n in payments), "--keyed")
        wait_until(lambda: running.log.count(" paid") == len(payments), about=running)
        assert running.stop() == 0
        amounts = defaultdict(list)
        for line in running.log.splitlines():
            if " paid" in line and (account := re.search(r"account=(\w+)", line)):
                amounts[account[1]].append(int(re.findall(r"amount=(\d+)", line)[0]))
        assert amounts == {account: list(range(1, 16)) for account in ("ada", "bob", "eve")}
    finally:
        running.kill()
