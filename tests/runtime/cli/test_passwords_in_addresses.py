"""A password in an address is shown to nobody, wherever somebody has written it."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from command import run
from replica import replica, set_trigger, write_function

from headrace.runtime.errors import masked
from headrace.runtime.kafka.access import PASSWORD
from headrace.runtime.kafka.names import BROKERS_VARIABLE

SECRET = "hunter2"
ADDRESSES = (
    f"ada:{SECRET}@h:9092",
    f"SASL://ada:{SECRET}@h:9092",
    f"ada:{SECRET},x y@h:9092",
    f"{SECRET}@h:9092",
)
WEB = (f"https://ada:{SECRET}@h/token", f"https://ada:{SECRET}/x@h/token", f"https://{SECRET}@h")
HANDLER = "def handler(context, event): pass"


def function(folder: Path, brokers: str = "h:9092", **attributes: Any) -> str:
    return str(write_function(folder / "f", HANDLER, brokers, ["records"], **attributes))


def assert_refused(result: subprocess.CompletedProcess[str], why: str) -> None:
    said = result.stdout + result.stderr
    assert result.returncode == 2
    assert why in said
    assert SECRET not in said


@pytest.mark.full_but("SASL*")
@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_of_a_broker_with_a_password_is_refused_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    refused = [
        run("validate", "--resolved", function(tmp_path, address)),
        run("validate", function(tmp_path), "--brokers", address),
        run("run", function(tmp_path), "--brokers", address),
        run("kafka", "topics", "--brokers", address),
    ]
    monkeypatch.setitem(os.environ, BROKERS_VARIABLE, address)
    refused += [run("validate", function(tmp_path)), run("kafka", "topics")]
    for result in refused:
        assert_refused(result, "has an address with a user")


@pytest.mark.full_but("https://ada:hunter2@h/token")
@pytest.mark.parametrize("address", WEB)
def test_an_address_of_a_token_server_with_a_password_is_refused_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    sasl = {"enable": True, "mechanism": "OAUTHBEARER", "oauth": {"tokenURL": address, "clientID": "a"}}
    monkeypatch.setitem(os.environ, PASSWORD, "word")
    signing_in = ("--user", "ada", "--sasl-mechanism", "OAUTHBEARER", "--token-url", address)
    for result in (
        run("validate", function(tmp_path, sasl=sasl)),
        run("kafka", "topics", "--brokers", "127.0.0.1:1", *signing_in),
    ):
        assert_refused(result, "is no address of a token server")


@pytest.mark.full
def test_an_address_that_is_taken_is_shown_without_its_password(
    tmp_path: Path, broker: Broker, topic: str
) -> None:
    folder = write_function(tmp_path / "f", HANDLER, broker.bootstrap, [topic])
    set_trigger(folder, url=f"https://ada:{SECRET}@h/x")
    for form in ([], ["--json"]):
        shown = run("validate", "--resolved", str(folder), *form)
        assert shown.returncode == 0
        assert "https://***@h/x" in shown.stdout
        assert SECRET not in shown.stdout + shown.stderr
    with replica(folder, "--log-level", "trace") as running:
        running.wait_ready()
        said = [running.get(path)[1] for path in ("/api/status", "/ready", "/metrics")]
        assert running.stop() == 0
    assert SECRET not in running.log + "".join(said)


def test_what_holds_no_password_stays_as_it_is() -> None:
    kept = ("h:9092", "[::1]:9092", "ada@example.org", "a: b", "https://h/x", "")
    assert [masked(text) for text in kept] == [*kept]
    assert masked("a://b:c@d@e") == "a://***@e"
    assert masked("b:c://d@e") == "***@e"
