"""Every secret of a run is a canary: what its processes say and show, at level debug, has none of them."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from broker import Broker, embedded
from canaries import Canaries, Watch, files_with, watched_command_lines
from certificates import Authority
from click.testing import CliRunner
from command import run
from forked import PROGRAM
from kafka_records import group_offsets, produce
from replica import Replica, lines, replica, set_spec, wait_until, write_function
from tokens import TokenServer, token_server

from headrace.runtime.cli.validate import validate
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.security import BrokerSecurity

USERS = ("plain", "by-file", "by-set")
RECORDS = 4
PRIVATE_FILES = {"broker.properties", "format.properties", "server.pem"}
HANDLER = """
    def handler(context, event):
        write(event.offset)
        if event.offset == 1:
            raise ValueError("a failure")
        if event.offset == 2:
            print("it says", os.environ["TOLD"])
            context.logger.debug_with("and logs it", told=os.environ["TOLD"])
"""


@dataclass(frozen=True, slots=True)
class World:
    """A broker with all its guards, and the secrets of all who come in."""

    canaries: Canaries
    secrets: dict[str, str]
    kafka: EmbeddedKafka
    tokens: TokenServer
    server: Authority
    clients: Authority
    folder: Path
    watch: Watch

    @property
    def plain(self) -> Broker:
        return Broker(self.kafka.bootstrap, "embedded")

    def sasl(self, user: str, mechanism: str, **more: object) -> dict[str, object]:
        return {"enable": True, "user": user, "mechanism": mechanism, **more}

    def ways(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Triggers by name: an address, and what signs in there."""
        own, kafka = self.secrets, self.kafka
        oauth = {"clientID": "ada", "clientSecret": own["client secret"], "tokenURL": self.tokens.url}
        pair = {"accessKey": own["key"], "accessCertificate": own["certificate"]}
        trust = {"caCert": self.server.pem}
        by_file = {"password": "password"}
        return {
            "plain": (kafka.sasl_bootstrap, {"sasl": self.sasl("plain", "PLAIN", password="${PASSWORD}")}),
            "by-file": (
                kafka.sasl_tls_bootstrap,
                {**trust, "secretPath": "secrets", "sasl": self.sasl("by-file", "SCRAM-SHA-256", **by_file)},
            ),
            "by-set": (kafka.sasl_bootstrap, {"sasl": self.sasl("by-set", "SCRAM-SHA-512")}),
            "token": (kafka.sasl_bootstrap, {"sasl": self.sasl("", "OAUTHBEARER", oauth=oauth)}),
            "pair": (kafka.mutual_tls_bootstrap, trust | pair),
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    canaries, server, clients = Canaries(), Authority(), Authority()
    pair, own = clients.pair("ada"), server.pair("127.0.0.1")
    names = ("client secret", "token", "env", "admin", "wrong", *USERS)
    secrets = {name: canaries.new(name) for name in names}
    secrets |= {"key": canaries.add_key("key", pair.key), "certificate": pair.certificate}
    canaries.add_key("server key", own.key)
    security = BrokerSecurity(
        {name: secrets[name] for name in USERS},
        takes_tokens=True,
        tls=True,
        client_ca_pem=clients.pem,
        server_pem=own.key + own.certificate,
    )
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        for name, value in {
            "TMPDIR": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "PASSWORD": secrets["plain"],
            "PRIVATE": secrets["env"],
            "HEADRACE_ADMIN_TOKEN": secrets["admin"],
        }.items():
            patch.setenv(name, value)
        with (
            watched_command_lines() as watch,
            embedded(security) as kafka,
            token_server(secrets["client secret"], secrets["token"]) as tokens,
        ):
            yield World(canaries, secrets, kafka, tokens, server, clients, folder, watch)


def function_of(world: World, folder: Path, topic: str) -> Path:
    write_function(folder, HANDLER, "127.0.0.1:1", [topic])
    path = folder / "function.yaml"
    function = yaml.safe_load(path.read_text())
    (like,) = function["spec"]["triggers"].values()
    policy = {"maxAttempts": 2, "backoff": "10ms", "then": "skip"}
    triggers = {
        name: like
        | {"numWorkers": 1}
        | {
            "attributes": like["attributes"]
            | {"brokers": [address], "consumerGroup": f"{topic}-{name}", "onFailure": policy}
            | access
        }
        for name, (address, access) in world.ways().items()
    }
    (folder / "secrets").mkdir()
    (folder / "secrets" / "password").write_text(world.secrets["by-file"])
    told = world.canaries.new("told")
    env = [{"name": "MINE", "value": "${PRIVATE}"}, {"name": "TOLD", "value": told}]
    return set_spec(folder, triggers=triggers, env=env)


def by_set(world: World) -> tuple[str, str]:
    return "--set", f"triggers.by-set.attributes.sasl.password={world.secrets['by-set']}"


def handled(world: World, topic: str, count: int) -> bool:
    wanted = {(topic, 0): count}
    return all(group_offsets(world.plain, f"{topic}-{name}") == wanted for name in world.ways())


def shown(running: Replica) -> str:
    return "".join(
        running.get(path)[1] for path in ("/api/status", "/ready", "/live", "/metrics", "/", "/api/recent")
    )


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(("--replicas", "2"), id="console", marks=pytest.mark.full),
        pytest.param(("--log-format", "json"), id="json"),
    ],
)
def test_a_run_with_failures_says_none_of_its_secrets(
    world: World, tmp_path: Path, how: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "json" not in how:
        monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")  # it shows what callbacks are called with
    topic = f"records-{how[1]}"
    world.plain.create(topic, 1)
    folder = function_of(world, tmp_path / "f", topic)
    produce(world.plain, topic, RECORDS, partitions=1)
    debug = (*by_set(world), "--log-level", "trace", *how)
    with replica(folder, *debug, program=[*PROGRAM], log=tmp_path / "log") as running:
        running.wait_ready()
        wait_until(lambda: handled(world, topic, RECORDS), about=running)
        said = shown(running)
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        asyncio.run(world.kafka.restart(kill=True))
        said += shown(running)
        produce(world.plain, topic, RECORDS, partitions=1)
        wait_until(lambda: handled(world, topic, 2 * RECORDS), about=running)
        moved = run("partition", "skip", f"{topic}/0", "--admin", running.url)
        kept = files_with(world.canaries, [world.folder])
        said += shown(running) + moved.stdout + moved.stderr
        assert running.stop() == 0
    assert len(lines(folder)) >= 2 * RECORDS
    assert "aiokafka" in running.log or "Request" in running.log
    # What a handler prints is its own affair, and shows that this is looked at.
    assert world.canaries.found(running.log) == ["told"]
    assert world.canaries.found(said) == []
    assert_kept_in_private(kept)
    assert set(files_with(world.canaries, [world.folder])) <= set(kept)
    # Who types a password lets everybody see it; but nobody repeats it, to replicas or anywhere.
    exposed = world.watch.having(world.secrets["by-set"].encode())
    (typed,) = (line for line in exposed if str(folder).encode() in line)
    assert typed.endswith(b"\0".join(map(str.encode, debug)) + b"\0")


def assert_kept_in_private(kept: dict[Path, list[str]]) -> None:
    assert {path.name for path in kept} == PRIVATE_FILES
    for path in kept:
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.full
def test_a_refused_run_says_none_of_its_secrets(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.plain.create("refused", 1)
    folder = function_of(world, tmp_path / "f", "refused")
    wrong = world.secrets["wrong"]
    monkeypatch.setenv("PASSWORD", wrong)
    once = run("run", str(folder), "--admin-port", "0", "--log-level", "trace", *by_set(world))
    assert once.returncode == 3
    assert "refuses the sign-in" in once.stderr
    monkeypatch.setenv("PASSWORD", world.secrets["plain"])
    (folder / "secrets" / "password").write_text(wrong)
    monkeypatch.setattr(world.tokens, "secret", "changed")
    with replica(folder, *by_set(world), "--log-level", "trace", "--replicas", "2") as running:
        running.logged("refuses a token (401)")
        running.logged("replica-1 ended with exit code 3")
        said = running.log + shown(running)
    assert world.canaries.found(once.stdout + once.stderr + said) == []


def test_commands_say_none_of_their_secrets(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = function_of(world, tmp_path / "f", "commands")
    authority = tmp_path / "ca.pem"
    authority.write_text(world.server.pem)
    resolved = run("validate", str(folder), "--resolved", *by_set(world))
    assert resolved.returncode == 0, resolved.stderr
    said = [resolved, run("validate", str(folder), "--json", *by_set(world))]
    topics = ("kafka", "topics", "--brokers", world.kafka.sasl_tls_bootstrap, "--tls-ca", str(authority))
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"):
        signing_in = ("--user", "plain", "--sasl-mechanism", mechanism, "--token-url", world.tokens.url)
        own, is_token = world.secrets["plain"], mechanism == "OAUTHBEARER"
        for password, code in ((own, 3 if is_token else 0), (world.secrets["wrong"], 3)):
            monkeypatch.setenv("HEADRACE_PASSWORD", password)
            said.append(run(*topics, *(signing_in if is_token else signing_in[:4])))
            assert said[-1].returncode == code, said[-1].stderr
    for result in said:
        assert world.canaries.found(result.stdout + result.stderr) == []


@pytest.mark.parametrize(
    "mistake",
    [
        "triggers.plain.attributes.sasl.password=[CANARY]",
        "triggers.plain.attributes.sasl.password={CANARY: CANARY}",
        "triggers.plain.attributes.sasl.passwort=CANARY",
        "triggers.plain.attributes.sasl=CANARY",
        "triggers.plain.attributes.sasl.password='CANARY",
        "triggers.plain.attributes.sasl.password=!CANARY",
        "triggers.plain.attributes.sasl.password=*CANARY",
        "triggers.plain.attributes.sasl.password=a: CANARY: b",
        "triggers.plain.attributes.sasl.password=${CANARY",
        "triggers.plain.attributes.sasl.oauth=CANARY",
        "triggers.plain.attributes.sasl.oauth.clientSecret=[CANARY]",
        "triggers.plain.attributes.accessKey=CANARY",
        "triggers.pair.attributes.accessKey=-----BEGIN PRIVATE KEY-----@CANARY@-----END PRIVATE KEY-----",
        "triggers.pair.attributes.accessKey=[CANARY]",
        "triggers.pair.attributes.accessKey=/CANARY",
        "triggers.pair.attributes.caCert=CANARY",
        "triggers.plain.password=[CANARY]",
        "triggers.plain.secret=[CANARY]",
        "triggers.plain.password=CANARY",
        "triggers.plain.secret=CANARY",
        "env=[{name: MINE, value: [CANARY]}]",
        "env=[{name: MINE, valeu: CANARY}]",
        "env=[{name: '', value: CANARY}]",
        "env={MINE: CANARY}",
        "spark={remote: 'sc://127.0.0.1:1', token: CANARY}",
        "spark={remote: 'sc://127.0.0.1:1/;token=CANARY'}",
        "spark={remote: 'sc:/127.0.0.1:1/;token=CANARY'}",
        "spark={remote: 'sc://127.0.0.1:1', token: [CANARY]}",
        "spark={master: local, token: CANARY}",
    ],
)
def test_a_mistake_in_a_secret_is_said_without_it(world: World, tmp_path: Path, mistake: str) -> None:
    folder = function_of(world, tmp_path / "f", "mistakes")
    text = mistake.replace("CANARY", world.canaries.new("mistaken"))
    for more in ("--resolved", "--json"):
        result = CliRunner().invoke(validate, [str(folder), more, *by_set(world), "--set", text])
        said = result.output + str(result.exception)
        assert world.canaries.found(said) == [], said


def test_command_lines_hold_no_secret_that_nobody_typed(world: World) -> None:
    watch = world.watch
    assert watch.having(b"@format.arguments")
    assert not watch.having(b"saltedpassword")
    unasked = [line for line in watch.seen if b"--set" not in line]
    assert [line for line in unasked if world.canaries.found(line)] == []
