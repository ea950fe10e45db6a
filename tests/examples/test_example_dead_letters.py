"""examples/dead_letters, as its README says it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import run
from replica import Replica, wait_until
from root import ROOT

FOLDER = ROOT / "examples/dead_letters"
GOOD, BAD = b'{"customer": "Ada", "amount": 3}', b"three for Ada, please"


@pytest.mark.full
def test_the_good_orders_count_and_the_bad_one_is_listed_and_replayed(tmp_path: Path) -> None:
    running = Replica(FOLDER, tmp_path / "replica.txt", "--embedded-kafka")
    try:
        running.wait_ready()
        address = running.log.split("embedded Kafka at ")[1].split()[0]
        produce(address, GOOD, BAD, GOOD)
        wait_until(lambda: "Ada has ordered for 6" in running.log, about=running)
        wait_until(lambda: "is now a dead letter in orders.dead" in running.log, about=running)
        (letter,) = listed(address)
        assert "JSONDecodeError" in letter["provenance"]["error"]
        assert (letter["provenance"]["topic"], letter["provenance"]["attempts"]) == ("orders", 3)
        replayed = run(
            "deadletters", "replay", "orders.dead", "--all", "--source", "orders", "--brokers", address
        )
        assert replayed.returncode == 0, replayed.stderr
        wait_until(lambda: len(listed(address)) == 2, about=running)
        assert running.get("/ready")[0] == 200
        assert running.stop() == 0
    finally:
        running.kill()


def produce(address: str, *bodies: bytes) -> None:
    command = [sys.executable, "-P", "-m", "headrace", "kafka", "produce", "--brokers", address]
    subprocess.run([*command, "--topic", "orders"], input=b"\n".join(bodies), check=True, capture_output=True)


def listed(address: str) -> list[dict[str, Any]]:
    found = run("deadletters", "list", "orders.dead", "--brokers", address, "--json")
    assert found.returncode == 0, found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_the_readme_is_short_and_names_what_is_there() -> None:
    text = (FOLDER / "README.md").read_text()
    assert len(text.splitlines()) <= 15
    assert len((FOLDER / "orders.py").read_text().splitlines()) <= 40
    assert all(name in text for name in ("orders.py", "function.yaml", "--embedded-kafka"))
