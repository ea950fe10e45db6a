"""Topics that appear, go, and come again under their names while a group runs. On a real broker."""

import time
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from kafka_records import group_offsets, handled, produce
from replica import frozen, lines, replica, set_trigger, wait_until, write_function

WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {event.body.decode()}")
"""
PATIENT: dict[str, Any] = {"sessionTimeout": "30s"}


@pytest.mark.full
def test_a_topic_that_appears_while_the_group_runs_is_noticed_soon_and_read_from_its_beginning(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    new = f"{topic}-new"
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic, new], initialOffset="latest", **PATIENT
    )
    with replica(folder) as running:
        running.wait_ready()
        wait_until(lambda: set(running.committed().values()) == {0}, 90, about=running)
        broker.create(new, 2)
        produce(broker, new, 100, partitions=2)
        created = time.time()
        assert running.logged(f"{new}/0-1 ->", seconds=90) - created < 30
        produce(broker, new, 10, partitions=2)
        wait_until(lambda: len(lines(folder)) >= 110, 90, about=running)
        assert running.stop() == 0
    assert handled(folder) == {(new, partition): list(range(55)) for partition in range(2)}


@pytest.mark.full_but("latest")
@pytest.mark.parametrize(
    "attributes",
    [
        PATIENT | {"initialOffset": "latest"},
        PATIENT | {"initialOffset": "earliest"},
        {"groupProtocol": "consumer", "initialOffset": "latest"},
    ],
    ids=["latest", "earliest", "consumer"],
)
def test_a_topic_that_is_made_anew_while_the_group_runs_is_read_from_its_beginning(
    attributes: dict[str, Any], broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], **attributes)
    with replica(folder) as running:
        running.wait_ready()
        wait_until(lambda: set(running.committed().values()) == {0}, 90, about=running)
        produce(broker, topic, 80)
        wait_until(lambda: len(lines(folder)) == 80, 90, about=running)
        broker.delete(topic)
        wait_until(lambda: running.trigger()["partitions"] == [], 90, about=running)
        broker.create(topic, 8)
        produce(broker, topic, 400)
        wait_until(lambda: len(lines(folder)) >= 480, 90, about=running)
        assert running.stop() == 0
    found = handled(folder)
    assert found == {(topic, number): [*range(10), *range(50)] for number in range(8)}
    assert set(group_offsets(broker, f"group-{topic}").values()) == {50}


@pytest.mark.full_but("undecoded-classic")
@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("attributes", [PATIENT, {"groupProtocol": "consumer"}], ids=["classic", "consumer"])
def test_a_topic_that_is_made_anew_and_refilled_within_a_stall_loses_no_record(
    attributes: dict[str, Any], broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], **attributes)
    produce(broker, topic, 80)
    with replica(folder) as running:
        wait_until(lambda: running.get("/ready")[0] == 200, 90, about=running)
        wait_until(lambda: set(running.committed().values()) == {10}, 90, about=running)
        with frozen(running):
            broker.delete(topic)
            broker.create(topic, 8)
            produce(broker, topic, 800, size=64)
        wait_until(lambda: missing(folder, topic, 100) == set(), 90, about=running)
        wait_until(lambda: set(running.committed().values()) == {100}, 90, about=running)
        assert f"topic {topic} was made anew" in running.log
        assert running.stop() == 0
    assert set(group_offsets(broker, f"group-{topic}").values()) == {100}


@pytest.mark.full_but("None")
@pytest.mark.parametrize("batch", [None, {"mode": "enable", "batchSize": 16, "timeout": "100ms"}])
def test_a_topic_that_is_deleted_stops_no_other_and_comes_back(
    batch: dict[str, object] | None, broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, events):
            for event in events if isinstance(events, list) else [events]:
                write(f"{event.topic} {event.shard_id} {event.offset} {event.body.decode()}")
    """
    other = broker.create_topic(2)
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic, other], **PATIENT)
    if batch:
        set_trigger(folder, batch=batch)
    produce(broker, topic, 80)
    produce(broker, other, 20, partitions=2)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 100, 90, about=running)
        broker.delete(other)
        deleted = time.monotonic()
        for rounds in range(1, 6):
            produce(broker, topic, 80)
            wait_until(lambda: len(lines(folder)) >= 100 + 80 * rounds, 30, about=running)  # noqa: B023
        assert time.monotonic() - deleted < 40
        wait_until(lambda: len(running.trigger()["partitions"]) == 8, 90, about=running)
        broker.create(other, 2)
        produce(broker, other, 20, partitions=2)
        wait_until(lambda: len(lines(folder)) >= 520, 90, about=running)
        assert running.stop() == 0
        assert "Traceback" not in running.log
    found = handled(folder)
    assert found == {(topic, number): list(range(60)) for number in range(8)} | {
        (other, number): [*range(10), *range(10)] for number in range(2)
    }


def missing(folder: Path, topic: str, count: int) -> set[tuple[int, int]]:
    """Of the records of the second topic of that name, whose bodies are longer."""
    written = [line.split() for line in lines(folder)]
    seen = {(int(number), int(offset)) for _, number, offset, body in written if len(body) == 64}
    return {(number, offset) for number in range(8) for offset in range(count)} - seen
