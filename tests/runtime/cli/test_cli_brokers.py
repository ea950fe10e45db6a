"""How commands get into a broker that asks for TLS or a sign-in, and what they say when they don't."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from refusal import refused
from servers import GuardedBroker

from headrace.runtime.cli.main import headrace
from headrace.runtime.errors import BrokerError, UsageError


def run(*arguments: str, password: str = "pass,word") -> Result:
    return CliRunner().invoke(headrace, arguments, env={"HEADRACE_PASSWORD": password})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_signs_in(guarded: GuardedBroker, mechanism: str) -> None:
    access = ("--brokers", guarded.sasl_bootstrap, "--user", "ben", "--sasl-mechanism", mechanism)
    topic = guarded.plain.create_topic(2)
    for command in (
        ("kafka", "topics", "--create", f"{topic}-made:1"),
        ("kafka", "produce", "--topic", topic, "--count", "1"),
        ("kafka", "consume", "--topic", topic, "--count", "1"),
        ("kafka", "groups"),
        ("deadletters", "list", topic),
        ("deadletters", "replay", topic, "--all", "--to", topic),
    ):
        result = run(*command, *access)
        assert result.exit_code == 0, (command, result.exception or result.output)


def test_a_certificate_file_is_trusted(guarded: GuardedBroker, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(guarded.ca_pem)
    where = guarded.tls_bootstrap
    assert run("kafka", "topics", "--brokers", where, "--tls-ca", str(tmp_path / "ca.pem")).exit_code == 0
    line = refused(run("kafka", "topics", "--brokers", where, "--tls"), BrokerError)
    assert line.startswith(f"the certificate of {where} is not trusted (")
    assert "--tls-ca" in line


def test_a_sign_in_that_is_refused_says_so(guarded: GuardedBroker) -> None:
    access = ("--brokers", guarded.sasl_bootstrap, "--user", "ben")
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        told = run("kafka", "topics", *access, "--sasl-mechanism", mechanism, password="wrong")
        line = refused(told, BrokerError)
        assert line.startswith(f"{guarded.sasl_bootstrap} refuses the sign-in: check --user, ")
        assert "wrong" not in line


def test_a_sign_in_where_there_is_none_says_so(guarded: GuardedBroker) -> None:
    line = refused(run("kafka", "topics", "--brokers", guarded.bootstrap, "--user", "ben"), BrokerError)
    assert line == f"{guarded.bootstrap} does not offer this --sasl-mechanism, or no sign-in at all"


def test_a_broker_that_wants_more_than_it_is_given_is_told_with_the_options(guarded: GuardedBroker) -> None:
    where = guarded.sasl_bootstrap
    line = refused(run("kafka", "topics", "--brokers", where), BrokerError)
    assert line.startswith(f"no Kafka broker answers at {where}")
    assert "--tls" in line
    assert "--user" in line
    where = guarded.tls_bootstrap
    line = refused(run("kafka", "topics", "--brokers", where), BrokerError)
    assert line == f"{where} speaks TLS: set --tls, or name its port without TLS"


def test_mistakes_are_found_before_anybody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    line = refused(run("kafka", "topics", "--user", "ben", password=""), UsageError)
    assert line == "--user ben signs in with a password: put it into HEADRACE_PASSWORD"
    line = refused(run("kafka", "topics", "--tls-ca", str(tmp_path / "no.pem")), UsageError)
    assert line.endswith("no.pem holds no certificate; expected a file in PEM")
    line = refused(run("kafka", "topics", "--tls-ca", str(tmp_path / "gone.pem")), UsageError)
    assert line.endswith("gone.pem can't be read: No such file or directory")
    line = refused(run("kafka", "topics", "--tls-key", str(tmp_path / "no.pem")), UsageError)
    assert line == "--tls-key needs --tls-cert, the certificate that it belongs to"
    line = refused(run("kafka", "topics", "--tls-cert", str(tmp_path / "no.pem")), UsageError)
    assert "no.pem can't be used with its certificate (" in line
    line = refused(run("kafka", "topics", "--user", "a", "--sasl-mechanism", "OAUTHBEARER"), UsageError)
    assert line == "--sasl-mechanism OAUTHBEARER needs --token-url, where tokens come from"
