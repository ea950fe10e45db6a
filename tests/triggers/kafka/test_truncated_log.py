"""A log whose end is lost, and filled again before anybody looks: of a real broker, killed."""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from replica import frozen, lines, replica, wait_until, write_function

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.triggers.kafka.format.decoder import HEADER

WRITES = """
    def handler(context, event):
        write(f"{event.offset} {event.body.decode()}")
"""
_BEFORE_LENGTH = 12


def produce(broker: Broker, topic: str, bodies: Sequence[str]) -> None:
    """A batch for each."""

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for body in bodies:
                await producer.send_and_wait(topic, body.encode(), partition=0)

    asyncio.run(send())


@contextmanager
def own_broker() -> Iterator[EmbeddedKafka]:
    kafka = EmbeddedKafka()
    asyncio.run(kafka.start())
    try:
        yield kafka
    finally:
        kafka.kill()


def lose(kafka: EmbeddedKafka, topic: str, first: int) -> None:
    """Kill the broker, and start it again without what its partition 0 has from that offset on."""
    assert kafka._folder.path is not None
    asyncio.run(kafka._halt(signal.SIGKILL))
    (log,) = (kafka._folder.path / "records" / f"{topic}-0").glob("*.log")
    data, at = log.read_bytes(), 0
    while True:
        offset, length, *_ = HEADER.unpack_from(data, at)
        if offset >= first:
            break
        at += _BEFORE_LENGTH + length
    log.write_bytes(data[:at])
    asyncio.run(kafka._launch())


@pytest.mark.full
@pytest.mark.parametrize(
    "attributes", [{}, pytest.param({"fetchMax": 1 << 30}, marks=pytest.mark.full)], ids=["chunks", "decoded"]
)
def test_what_took_the_places_of_lost_records_is_read(attributes: dict[str, Any], tmp_path: Path) -> None:
    with own_broker() as kafka:
        broker = Broker(kafka.bootstrap, "embedded")
        topic = broker.create_topic(1)
        folder = write_function(
            tmp_path / "f", WRITES, broker.bootstrap, [topic], sessionTimeout="60s", **attributes
        )
        with replica(folder) as running:
            produce(broker, topic, [f"old-{number}" for number in range(50)])
            wait_until(lambda: running.wait_ready().committed() == {0: 50}, about=running)
            with frozen(running):
                lose(kafka, topic, 30)
                produce(broker, topic, [f"new-{number}" for number in range(40)])
            wait_until(lambda: "69 new-39" in lines(folder), about=running)
            assert running.logged("the broker has lost offsets 30 to 49")
            wait_until(lambda: running.committed() == {0: 70}, about=running)
            assert running.stop() == 0
    assert lines(folder)[50:] == [f"{30 + number} new-{number}" for number in range(40)]


@pytest.mark.full
def test_a_new_leader_that_has_lost_nothing_is_read_on(tmp_path: Path) -> None:
    with own_broker() as kafka:
        broker = Broker(kafka.bootstrap, "embedded")
        topic = broker.create_topic(1)
        folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], sessionTimeout="60s")
        with replica(folder) as running:
            produce(broker, topic, [f"old-{number}" for number in range(50)])
            wait_until(lambda: running.wait_ready().committed() == {0: 50}, about=running)
            asyncio.run(kafka.restart(kill=True))
            produce(broker, topic, [f"new-{number}" for number in range(40)])
            wait_until(lambda: len(lines(folder)) >= 90, about=running)
            assert running.stop() == 0
            assert "has lost offsets" not in running.log
    assert len(lines(folder)) == 90
