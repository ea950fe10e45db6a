"""Signing in and encryption, on a broker that asks for them."""

from pathlib import Path

import pytest
from broker import Broker
from command import one_line, run
from kafka_records import produce
from replica import lines, replica, set_trigger, wait_until, write_function
from servers import GuardedBroker
from spark import SharedSpark, write_spark_function

WRITES = """
    def handler(context, event):
        write(event.offset)
"""


@pytest.fixture
def records(guarded: GuardedBroker) -> str:
    """A topic of the test's own."""
    return guarded.plain.create_topic()


@pytest.mark.full
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_function_signs_in(guarded: GuardedBroker, records: str, tmp_path: Path, mechanism: str) -> None:
    sasl = {"enable": True, "user": "ada", "password": "s3cret-word", "mechanism": mechanism}
    folder = write_function(tmp_path / "f", WRITES, guarded.sasl_bootstrap, [records], sasl=sasl)
    produce(guarded.plain, records, 8)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 8, about=running)
        assert "s3cret-word" not in running.log + running.get("/api/status")[1]


def test_a_wrong_password_is_one_line_without_it(
    guarded: GuardedBroker, records: str, tmp_path: Path
) -> None:
    sasl = {"enable": True, "user": "ada", "password": "wr0ng-word", "mechanism": "SCRAM-SHA-256"}
    folder = write_function(tmp_path / "f", WRITES, guarded.sasl_bootstrap, [records], sasl=sasl)
    result = run("run", str(folder), "--admin-port", "0")
    assert "sasl.user" in one_line(result, code=3)
    assert "wr0ng-word" not in result.stderr


@pytest.mark.full
def test_a_function_trusts_the_authority_that_it_is_given(
    guarded: GuardedBroker, records: str, tmp_path: Path
) -> None:
    flattened = guarded.ca_pem.replace("\n", "@")
    folder = write_function(tmp_path / "f", WRITES, guarded.tls_bootstrap, [records], caCert=flattened)
    produce(guarded.plain, records, 8)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 8, about=running)


@pytest.mark.full_but("certificate")
@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "TLS", "certificate"])
def test_spark_reads_ranges_by_the_same_way(
    guarded: GuardedBroker, spark: SharedSpark, records: str, tmp_path: Path, way: str
) -> None:
    handler = """
        from headrace.functions.spark import ranges_to_dataframe
        def handler(context, ranges):
            write(ranges_to_dataframe(context, ranges).count())
    """
    sasl = {"enable": True, "user": "ada", "password": "s3cret-word", "mechanism": way}
    own = guarded.client
    addresses: dict[str, tuple[str, dict[str, object]]] = {
        "SCRAM-SHA-512": (guarded.sasl_bootstrap, {"sasl": sasl}),
        "TLS": (guarded.tls_bootstrap, {"caCert": guarded.ca_pem}),
        "certificate": (
            guarded.mutual_tls_bootstrap,
            {"caCert": guarded.ca_pem, "accessKey": own.key, "accessCertificate": own.certificate},
        ),
    }
    address, security = addresses[way]
    folder = write_spark_function(
        tmp_path / "f", handler, Broker(address, "embedded"), records, spark, delivery="ranges", **security
    )
    set_trigger(folder, batch={"mode": "enable", "batchSize": 100, "timeout": "100ms"})
    produce(guarded.plain, records, 80)
    with replica(folder) as running:
        wait_until(lambda: sum(map(int, lines(folder))) == 80, about=running)
        assert "s3cret-word" not in running.log + running.get("/api/status")[1]


def test_an_authority_that_is_not_trusted_is_said(
    guarded: GuardedBroker, records: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, guarded.tls_bootstrap, [records], tls={"enable": True})
    assert "check caCert" in one_line(run("run", str(folder), "--admin-port", "0"), code=3)


@pytest.mark.full
def test_a_sign_in_where_there_is_none_is_said(guarded: GuardedBroker, records: str, tmp_path: Path) -> None:
    sasl = {"enable": True, "user": "ada", "password": "s3cret-word", "mechanism": "SCRAM-SHA-256"}
    folder = write_function(tmp_path / "f", WRITES, guarded.bootstrap, [records], sasl=sasl)
    line = one_line(run("run", str(folder), "--admin-port", "0"), code=3)
    assert f"{guarded.bootstrap} does not offer sasl.mechanism SCRAM-SHA-256" in line


def test_a_function_may_take_any_certificate(guarded: GuardedBroker, records: str, tmp_path: Path) -> None:
    tls = {"enable": True, "insecureSkipVerify": True, "minimumVersion": "1.3"}
    folder = write_function(*(tmp_path / "f", WRITES, guarded.tls_bootstrap, [records]), tls=tls)
    produce(guarded.plain, records, 8)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 8, about=running)
