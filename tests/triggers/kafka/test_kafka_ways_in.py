"""Every way into a broker, from every place where its secrets may be: each a function of one run."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml
from broker import Broker, embedded
from certificates import Authority, Pair
from command import one_line, run
from effort import IS_FULL
from kafka_records import group_offsets, produce
from replica import replica, wait_until, write_function
from servers import USERS, GuardedBroker
from tokens import TokenServer, token_server

from headrace.runtime.embedded.kafka.security import BrokerSecurity
from headrace.runtime.kafka.access import PASSWORD

SECRET = USERS["ada"]
RECORDS = 4
FAILS = """
    def handler(context, event):
        if event.offset == 1:
            raise ValueError("this one is for the dead letters")
"""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PLACES = ("attribute", "annotation", "file", "variable")


@dataclass(frozen=True, slots=True)
class World:
    """A broker with all its guards, and a token server."""

    kafka: GuardedBroker
    tokens: TokenServer

    @property
    def client(self) -> Pair:
        return self.kafka.client

    def address(self, mechanism: str, channel: str) -> str:
        if mechanism == "certificate":
            return self.kafka.mutual_tls_bootstrap
        return self.kafka.sasl_tls_bootstrap if channel == "tls" else self.kafka.sasl_bootstrap

    def secrets(self, mechanism: str, channel: str) -> dict[str, str]:
        """By the keys of their attributes."""
        trust = {"caCert": self.kafka.ca_pem} if channel == "tls" else {}
        if mechanism == "certificate":
            return {
                **trust,
                "accessKey": self.client.key,
                "accessCertificate": self.client.certificate,
            }
        name = "sasl.oauth.clientSecret" if mechanism == "OAUTHBEARER" else "sasl.password"
        return {**trust, name: self.tokens.secret if mechanism == "OAUTHBEARER" else SECRET}

    def open_settings(self, mechanism: str) -> dict[str, Any]:
        """What is no secret."""
        if mechanism == "certificate":
            return {}
        sasl: dict[str, Any] = {"enable": True, "mechanism": mechanism, "user": "ada"}
        if mechanism == "OAUTHBEARER":
            sasl["oauth"] = {"clientID": "ada", "tokenURL": self.tokens.url, "scopes": ["kafka"]}
        return {"sasl": sasl}


@pytest.fixture(scope="module")
def world(guarded: GuardedBroker) -> Iterator[World]:
    with token_server() as tokens:
        yield World(guarded, tokens)


ANNOTATIONS = {
    "caCert": "nuclio.io/kafka-ca-cert",
    "accessKey": "nuclio.io/kafka-access-key",
    "accessCertificate": "nuclio.io/kafka-access-cert",
    "sasl.password": "nuclio.io/kafka-sasl-password",
    "sasl.oauth.clientSecret": "nuclio.io/kafka-sasl-oauth-client-secret",
}


def put(folder: Path, place: str, name: str, secrets: dict[str, str]) -> dict[str, str]:
    """Have the function find its secrets there; variables that its run needs."""
    path = folder / "function.yaml"
    function = yaml.safe_load(path.read_text())
    attributes = function["spec"]["triggers"]["records"]["attributes"]
    variables = {}
    for key, secret in secrets.items():
        value = secret
        if place == "file":
            (folder / "secrets").mkdir(exist_ok=True)
            (folder / "secrets" / key).write_text(secret + "\n")
            attributes["secretPath"], value = "secrets", key
        elif place == "variable":
            variable = f"{name}_{key}".replace(".", "_").replace("-", "_").upper()
            variables[variable], value = secret, f"${{{variable}}}"
        if place == "annotation":
            annotations = function["metadata"].setdefault("annotations", {})
            annotations[ANNOTATIONS[key]] = value.replace("\n", "@")
        else:
            *above, last = key.split(".")
            target = attributes
            for part in above:
                target = target.setdefault(part, {})
            target[last] = value
    function["metadata"]["name"] = name
    path.write_text(yaml.safe_dump(function))
    return variables


def test_every_mechanism_on_every_channel_with_its_secrets_in_every_place(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = [(mechanism, channel) for mechanism in MECHANISMS for channel in ("plain", "tls")]
    ways.append(("certificate", "tls"))
    if IS_FULL:
        table = [(*way, place) for way in ways for place in PLACES]
    else:  # each way, each place
        table = [(*way, place) for way, place in zip(ways, cycle(PLACES), strict=False)]
    plain = world.kafka.plain
    folders = []
    for mechanism, channel, place in table:
        name = f"{mechanism}-{channel}-{place}".lower()
        plain.create(name, 1)
        plain.create(f"{name}.dead", 1)
        produce(plain, name, RECORDS, partitions=1)
        folder = write_function(
            tmp_path / name,
            FAILS,
            world.address(mechanism, channel),
            [name],
            workers=1,
            consumerGroup=name,
            onFailure={"maxAttempts": 1, "then": "deadLetter", "deadLetterTopic": f"{name}.dead"},
            **world.open_settings(mechanism),
        )
        for variable, value in put(folder, place, name, world.secrets(mechanism, channel)).items():
            monkeypatch.setenv(variable, value)
        folders.append(folder)
    first, *others = folders
    with replica(first, *map(str, others), log=tmp_path / "log") as running:
        running.wait_ready()
        for folder in folders:
            wait_until(partial(has_all, plain, folder.name), 120, about=running)
        said = running.log + running.get("/api/status")[1]
        assert not [secret for secret in (SECRET, world.tokens.secret, world.client.key) if secret in said]
    assert set(dead_letters(world, [f"{folder.name}.dead" for folder in folders])) == {1}


def has_all(broker: Broker, name: str) -> bool:
    return group_offsets(broker, name) == {(name, 0): RECORDS}


def dead_letters(world: World, topics: list[str]) -> list[int]:
    listed = json.loads(run("kafka", "topics", "--brokers", world.kafka.bootstrap, "--json").stdout)
    return [sum(topic["end_offsets"]) for topic in listed if topic["topic"] in topics]


@pytest.mark.full_but("OAUTHBEARER", "certificate")
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "certificate"])
def test_a_command_gets_in_the_same_ways(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    (tmp_path / "ca.pem").write_text(world.kafka.ca_pem)
    (tmp_path / "pair.pem").write_text(world.client.key + world.client.certificate)
    (tmp_path / "key.pem").write_text(world.client.key)
    secret = world.tokens.secret if mechanism == "OAUTHBEARER" else SECRET
    monkeypatch.setitem(os.environ, PASSWORD, secret)
    signing_in = ["--user", "ada", "--sasl-mechanism", mechanism]
    if mechanism == "OAUTHBEARER":
        signing_in += ["--token-url", world.tokens.url, "--token-scope", "kafka"]
    own = ["--tls-cert", str(tmp_path / "pair.pem")]
    by_certificate = [own, [*own, "--tls-key", str(tmp_path / "key.pem")]]
    for more in by_certificate if mechanism == "certificate" else [signing_in]:
        access = ["--brokers", world.address(mechanism, "tls"), "--tls-ca", str(tmp_path / "ca.pem"), *more]
        result = run("kafka", "topics", *access)
        assert result.returncode == 0, result.stderr


SIGNED_IN = {"enable": True, "user": "ada", "password": SECRET}


def test_a_certificate_that_nobody_trusts_is_said(world: World, tmp_path: Path) -> None:
    stranger = Authority().pair("ada")
    folder = write_function(
        tmp_path / "f",
        FAILS,
        world.kafka.mutual_tls_bootstrap,
        ["records"],
        caCert=world.kafka.ca_pem,
        accessKey=stranger.key,
        accessCertificate=stranger.certificate,
    )
    with replica(folder) as running:
        running.logged("or it does not take accessCertificate")
        running.logged("trying again every 2 s")


@pytest.mark.full
@pytest.mark.parametrize(
    ("hosts", "is_expired", "why"),
    [
        (("127.0.0.1",), True, "certificate has expired"),
        (("elsewhere.test",), False, "IP address mismatch, certificate is not valid for '127.0.0.1'"),
    ],
)
def test_a_brokers_certificate_that_is_wrong_is_one_line(
    tmp_path: Path, hosts: tuple[str, ...], is_expired: bool, why: str
) -> None:
    authority = Authority()
    own = authority.pair(*hosts, is_expired=is_expired)
    with embedded(BrokerSecurity(tls=True, server_pem=own.key + own.certificate)) as kafka:
        folder = write_function(tmp_path / "f", FAILS, kafka.tls_bootstrap, ["records"], caCert=authority.pem)
        line = one_line(run("run", str(folder), "--admin-port", "0"), code=3)
        assert f"the certificate of {kafka.tls_bootstrap} is not trusted ({why}" in line
