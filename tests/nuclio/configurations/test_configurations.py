"""What becomes of files that were written for Nuclio."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner
from kafka_records import produce
from nuclio_configurations import CORPUS, HANDLER, Configuration
from replica import Replica, replica, wait_until
from servers import GuardedBroker
from tokens import TokenServer, token_server

from headrace.runtime.cli.main import headrace
from headrace.runtime.config import function_reader

BY_NAME = pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)


def write(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "function.yaml").write_text(text)
    (folder / "main.py").write_text(HANDLER)
    return folder


def test_there_are_forty_and_their_names_differ() -> None:
    assert len({case.name for case in CORPUS}) == len(CORPUS) >= 40


@BY_NAME
def test_a_file_has_its_verdict(case: Configuration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a Headrace on the Python that most of them ask for."""
    monkeypatch.setattr(
        function_reader, "sys", SimpleNamespace(version_info=SimpleNamespace(major=3, minor=11))
    )
    result = CliRunner().invoke(
        headrace, ["validate", str(write(tmp_path / "f", case.text)), *case.arguments]
    )
    said = result.stdout.splitlines()
    lines = [line for line in said if not line.endswith(" is valid")]
    expected = case.refused or case.notices
    assert result.exit_code == (2 if case.refused else 0), result.stdout
    assert len(lines) == len(expected), result.stdout
    assert not [end for end in expected if not any(line.endswith(end) for line in lines)], result.stdout


def test_all_the_accepted_ones_handle_records(guarded: GuardedBroker, tmp_path: Path) -> None:
    """In one run, each in the way that it signs in."""
    with token_server() as tokens:
        broker = guarded.plain
        cases = [case for case in CORPUS if not case.refused]
        names = [f"case-{at}" for at in range(len(cases))]
        for name, case in zip(names, cases, strict=True):
            broker.create(name, 8)
            produce(broker, name, 8)
            write(tmp_path / name, _on(case.text, name, guarded, tokens))
        first, *others = (tmp_path / name for name in names)
        with replica(first, *map(str, others), "--only-kafka", log=tmp_path / "log") as running:
            for name in names:
                _wait_for(running, name, 8)


def _on(text: str, name: str, kafka: GuardedBroker, tokens: TokenServer) -> str:
    """The same, with a name, a topic and a group of its own, from the first record on."""
    document = yaml.safe_load(text)
    document.get("metadata", document.get("meta"))["name"] = name
    for trigger in document["spec"]["triggers"].values():
        if not trigger["kind"].startswith("kafka"):
            continue
        attributes = trigger["attributes"]
        attributes |= {"topics": [name], "consumerGroup": name, "initialOffset": "earliest"}
        sasl, has_tls = attributes.get("sasl", {}), attributes.get("tls", {}).get("enable")
        if "oauth" in sasl:
            sasl["oauth"] |= {"clientID": "ada", "clientSecret": tokens.secret, "tokenURL": tokens.url}
        secured = kafka.sasl_tls_bootstrap if has_tls else kafka.sasl_bootstrap
        address = secured if sasl.get("enable") else kafka.bootstrap
        if "url" in trigger:
            trigger["url"] = address
        else:
            attributes["brokers"] = [address]
    return yaml.safe_dump(document)


def _wait_for(running: Replica, name: str, records: int) -> None:
    """HANDLER prints each."""

    def printed() -> int:
        return sum("b'" in line and f"function={name} " in line for line in running.log.splitlines())

    wait_until(lambda: printed() == records, 120, about=running)
