"""A sign-in that is refused although it was taken before: said, paced, and nothing is lost."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Broker, embedded
from kafka_records import produce
from replica import lines, replica, set_spec, wait_until, write_function

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.properties import broker_settings, write_properties
from headrace.runtime.embedded.kafka.security import BrokerSecurity

WRITES = """
    def handler(context, event):
        write(event.offset)
"""
SASL = {"enable": True, "user": "ada", "password": "first", "mechanism": "PLAIN"}
REFUSED = "refuses the sign-in: check sasl.user, sasl.password and sasl.mechanism"


@pytest.fixture
def guarded() -> Iterator[EmbeddedKafka]:
    with embedded(BrokerSecurity({"ada": "first"}), records=1) as kafka:
        yield kafka


def restart_with(kafka: EmbeddedKafka, password: str) -> None:
    folder = kafka._folder.path
    assert folder is not None
    settings = broker_settings(kafka._ports, BrokerSecurity({"ada": password}))
    write_properties(folder / "broker.properties", settings)
    asyncio.run(kafka.restart())


@pytest.mark.full
def test_it_is_said_and_what_waits_is_handled_once_it_is_mended(
    guarded: EmbeddedKafka, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, guarded.sasl_bootstrap, ["records"], sasl=SASL)
    plain = Broker(guarded.bootstrap, "embedded")
    produce(plain, "records", 4, partitions=1)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 4, about=running)
        restart_with(guarded, "second")
        running.logged(REFUSED)
        assert REFUSED in running.get("/ready")[1]
        produce(plain, "records", 4, partitions=1)
        restart_with(guarded, "first")
        running.logged("takes the sign-in again")
        wait_until(lambda: set(lines(folder)) >= set(map(str, range(8))), about=running)
        assert running.log.count(REFUSED) == 1
        running.wait_ready()


@pytest.mark.full
def test_so_is_that_of_an_output(guarded: EmbeddedKafka, tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            context.produce("archive", event.body, output="archive")
    """
    plain = Broker(guarded.bootstrap, "embedded")
    plain.create("archive", 1)
    folder = write_function(tmp_path / "f", handler, guarded.bootstrap, ["records"])
    set_spec(folder, outputs={"archive": {"brokers": [guarded.sasl_bootstrap], "sasl": SASL}})
    produce(plain, "records", 4, partitions=1)
    with replica(folder) as running:
        wait_until(lambda: running.committed() == {0: 4}, about=running)
        restart_with(guarded, "second")
        produce(plain, "records", 4, partitions=1)
        running.logged(REFUSED)
        assert f"output archive of f: {guarded.sasl_bootstrap} {REFUSED}" in running.get("/ready")[1]
        restart_with(guarded, "first")
        running.logged("takes the sign-in again")
        wait_until(lambda: running.committed() == {0: 8}, about=running)
        assert running.log.count(REFUSED) == 1
        running.wait_ready()


@pytest.mark.full
def test_replicas_that_are_refused_are_tried_less_and_less_often(
    guarded: EmbeddedKafka, tmp_path: Path
) -> None:
    sasl = SASL | {"password": "wrong"}
    folder = write_function(tmp_path / "f", WRITES, guarded.sasl_bootstrap, ["records"], sasl=sasl)
    with replica(folder, "--replicas", "2") as running:
        for seconds in (1, 2, 4):
            running.logged(f"replica-0 ended with exit code 3; started again in {seconds} s")
