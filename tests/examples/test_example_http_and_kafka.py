"""examples/http_and_kafka, as its README says it, on another port and another broker."""

import json
from pathlib import Path

import pytest
from broker import Broker
from command import run
from replica import Replica, wait_until
from root import ROOT

FOLDER = ROOT / "examples/http_and_kafka"
COUNT = 5


def test_an_order_is_answered_once_it_is_in_kafka_and_is_handled_from_there(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_BROKERS", broker.bootstrap)
    broker.create("orders")
    group = f"triggers.orders.attributes.consumerGroup={topic}"
    options = ("--set", "triggers.web.attributes.port=0", "--set", group)
    running = Replica(FOLDER, tmp_path / "replica.txt", *options)
    try:
        running.wait_ready()
        invoke = ("invoke", "http-and-kafka", "--raw", "--admin", running.url)
        places = []
        for number in range(COUNT):
            told = run(*invoke, "--body", f"{topic} {number}")
            assert told.returncode == 0, told.stderr
            places.append(json.loads(told.stdout))
        for number, place in enumerate(places):
            line = f"orders/{place['partition']}/{place['offset']}"
            wait_until(lambda line=line: line in running.log, about=running)  # type: ignore[misc]
            assert f"{topic} {number}" in running.log
        refused = run(*invoke)
        assert (refused.returncode, refused.stdout) == (5, "an order has a body")
        assert running.stop() == 0
    finally:
        running.kill()


def test_the_readme_names_what_is_there() -> None:
    text = (FOLDER / "README.md").read_text()
    assert all(
        name in text for name in ("orders.py", "function.yaml", "headrace kafka up", "headrace invoke")
    )
