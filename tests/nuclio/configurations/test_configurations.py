"""What becomes of files that were written for Nuclio."""

from pathlib import Path

import pytest
import yaml
from broker import Broker
from command import run
from kafka_records import produce
from nuclio_configurations import CORPUS, HANDLER, Configuration
from replica import Replica, replica, wait_until

BY_NAME = pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
# One of each family; what needs another broker's security can't run on this one.
RUN = (
    "docs: the smallest",
    "docs: the broker as url",
    "docs: the same, left out",
    "export: nuctl, with status",
    "export: meta",
    "export: everything empty",
    "mlrun: the client's own keys",
    "hand: variables as they come",
)


def write(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "function.yaml").write_text(text)
    (folder / "main.py").write_text(HANDLER)
    return folder


def test_there_are_forty_and_their_names_differ() -> None:
    assert len({case.name for case in CORPUS}) == len(CORPUS) >= 40


@BY_NAME
def test_a_file_has_its_verdict(case: Configuration, tmp_path: Path) -> None:
    result = run("validate", str(write(tmp_path / "f", case.text)), *case.arguments)
    said = result.stdout.splitlines()
    lines = [line for line in said if not line.endswith(" is valid")]
    expected = case.refused or case.notices
    assert result.returncode == (2 if case.refused else 0), result.stdout
    assert len(lines) == len(expected), result.stdout
    assert not [end for end in expected if not any(line.endswith(end) for line in lines)], result.stdout


def test_a_sample_of_the_accepted_ones_handles_records(broker: Broker, tmp_path: Path) -> None:
    for at, name in enumerate(RUN):
        (case,) = (case for case in CORPUS if case.name == name)
        topic = broker.create_topic(8)
        folder = write(tmp_path / str(at), _on(case.text, topic))
        produce(broker, topic, 8)
        arguments = (*case.arguments, "--brokers", broker.bootstrap)
        with replica(folder, *arguments) as running:
            _wait_for(running, 8)


def _on(text: str, topic: str) -> str:
    """The same, with a topic and a group of its own, from the first record on."""
    document = yaml.safe_load(text)
    for trigger in document["spec"]["triggers"].values():
        if trigger["kind"].startswith("kafka"):
            trigger["attributes"] |= {"topics": [topic], "consumerGroup": topic, "initialOffset": "earliest"}
    return yaml.safe_dump(document)


def _wait_for(running: Replica, records: int) -> None:
    """HANDLER prints each."""
    wait_until(lambda: sum("b'" in line for line in running.log.splitlines()) == records, about=running)
