"""Whoever is no broker is named as what it is, in one line, soon, and once."""

import ssl
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from broker import Broker
from certificates import Authority
from strangers import Answer, closing, saying, silent, stranger

from headrace.runtime.errors import BrokerError
from headrace.runtime.kafka import guarded_connections
from headrace.runtime.kafka.access import BrokerAccess, Tls
from headrace.runtime.kafka.client import connected
from headrace.runtime.kafka.not_a_broker import NotABrokerError, handshake_failed, too_large

SILENT = "accepts connections and does not speak Kafka: it says nothing for 0.3 s"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_connections, "FIRST_ANSWER_SECONDS", 0.3)


async def said_of(access: BrokerAccess) -> str:
    with pytest.raises(BrokerError) as refused:
        async with connected(AIOKafkaAdminClient, access):
            pass
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (silent, f"{SILENT}: check the address"),
        (closing, "closes connections without an answer"),
        (saying(b"SSH-2.0-OpenSSH_9.2p1\r\n"), "is an SSH server, and does not speak Kafka"),
        (saying(b"220 mail ESMTP\r\n"), "speaks no Kafka, or only with TLS"),
        (saying(b"\x15\x03\x03\x00\x02\x02\x46"), "speaks TLS: set --tls"),
        (saying(b"\x00\x00\x00\x04\x00\x00\x00\x09"), "does not speak Kafka"),
        (saying(b"\x00\x00\x00\x04\x00\x00\x00\x01"), "gives an unreadable ApiVersion"),
    ],
)
async def test_who_is_no_broker_is_named(answer: Answer, says: str) -> None:
    async with stranger(answer) as address:
        line = await said_of(BrokerAccess(address))
        assert line.startswith(f"{address} ")
        assert says in line


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (silent, SILENT),
        (closing, "does not speak TLS: leave out --tls, or name its port with TLS"),
        (saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak TLS"),
    ],
)
async def test_who_does_not_speak_tls_is_named(answer: Answer, says: str) -> None:
    async with stranger(answer) as address:
        assert f"{address} {says}" in await said_of(BrokerAccess(address, Tls()))


async def test_a_server_with_tls_is_told_apart_from_one_that_is_not_trusted(tmp_path: Path) -> None:
    pair = Authority().pair("127.0.0.1")
    (tmp_path / "pair.pem").write_text(pair.key + pair.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pair.pem")
    async with stranger(silent, context) as address:
        assert "is not trusted" in await said_of(BrokerAccess(address, Tls()))
        line = await said_of(BrokerAccess(address, Tls(insecure_skip_verify=True)))
        assert f"{address} {SILENT}" in line


async def test_one_good_address_among_bad_ones_does(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("random.shuffle", lambda found: None)
    async with (
        stranger(silent) as mute,
        stranger(closing) as rude,
        connected(AIOKafkaConsumer, BrokerAccess(f"{mute},{rude}, {broker.bootstrap}")),
    ):
        pass
    said = [it.getMessage() for it in caplog.records if it.name.startswith("headrace")]
    assert len(said) == 2
    assert {f"{mute} {SILENT}: check the address, and --tls; another address answers"} < set(said)


async def test_an_address_at_which_nobody_is_stays_no_answer() -> None:
    async with stranger(silent) as address:
        pass
    assert f"no Kafka broker answers at {address}" in await said_of(BrokerAccess(address))
    assert f"no Kafka broker answers at {address}" in await said_of(BrokerAccess(address, Tls()))


def test_who_speaks_tls_but_refuses_is_no_stranger() -> None:
    assert handshake_failed("TLSV1_ALERT_PROTOCOL_VERSION") is None
    assert isinstance(handshake_failed("WRONG_VERSION_NUMBER"), NotABrokerError)
    assert "web server" in str(too_large(int.from_bytes(b"HTTP", "big")))
