"""Topics to write to that aren't there: an outage of theirs, by which no record fails. Real broker."""

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from broker import Broker, embedded
from kafka_records import produce
from processes import freeze
from replica import Replica, lines, replica, set_trigger, wait_until, write_function
from transactional import read_committed

TIMEOUT_SECONDS = 6
RETURNS = """
    def handler(context, event):
        write(f"{event.shard_id} {event.offset} {event.attempt}")
        return f"{event.shard_id} {event.offset}"
"""
SENDS = """
    def handler(context, event):
        write(f"{event.shard_id} {event.offset} {event.attempt}")
        context.produce(NAMES[event.shard_id], f"{event.shard_id} {event.offset} " + "x" * 50_000)
"""
PAUSE = "        time.sleep(0.01)\n"


def strict(tmp_path: Path, broker: Broker, topic: str, handler: str, **attributes: Any) -> Path:
    """A function that makes a dead letter of each record that has failed once."""
    letters = f"{topic}.dlq"
    broker.create(letters, 1)
    once = {"maxAttempts": 1, "then": "deadLetter", "deadLetterTopic": letters}
    return write_function(tmp_path / "f", handler, broker.bootstrap, [topic], onFailure=once, **attributes)


def not_ready(running: Replica, text: str) -> None:
    def is_said() -> bool:
        status, body = running.get("/ready")
        return status == 503 and text in body

    wait_until(is_said, 90, about=running)


def values(broker: Broker, topic: str) -> Counter[str]:
    """Those that are there, by partition and offset of their record."""
    found = (value.decode().split() for value in read_committed(broker, topic) if value is not None)
    return Counter(" ".join(words[:2]) for words in found)


def of(partition: int, count: int) -> set[str]:
    return {f"{partition} {offset}" for offset in range(count)}


def nothing_failed(running: Replica, broker: Broker, topic: str, folder: Path) -> None:
    assert running.stop() == 0
    assert read_committed(broker, f"{topic}.dlq") == []
    assert {line.split()[2] for line in lines(folder)} == {"1"}
    assert "Traceback" not in running.log


@pytest.mark.full_but("False-False")
@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_result_topic_that_is_missing_is_waited_for_from_the_start(
    broker: Broker, topic: str, tmp_path: Path, *, exactly_once: bool, is_batch: bool
) -> None:
    out = f"{topic}-results"
    handler = RETURNS
    if is_batch:
        handler = """
            def handler(context, events):
                for event in events:
                    write(f"{event.shard_id} {event.offset} {event.attempt}")
                return [
                    context.Response(body=f"{event.shard_id} {event.offset}", event_id=event.id)
                    for event in events
                ]
        """
    folder = strict(
        tmp_path, broker, topic, handler, resultTopic=out, exactlyOnce=exactly_once, partitions=[0]
    )
    if is_batch:
        set_trigger(folder, batch={"mode": "enable", "batchSize": 8, "timeout": "100ms"})
    with replica(folder) as running:
        not_ready(running, f"there is no topic {out} at")
        produce(broker, topic, 20, partitions=1)
        wait_until(lambda: lines(folder), 90, about=running)
        running.logged("messages wait", seconds=90)
        assert running.committed().get(0) in {0, None}
        broker.create(out, 1)
        wait_until(lambda: running.committed().get(0) == 20, 90, about=running)
        running.wait_ready()
        nothing_failed(running, broker, topic, folder)
        assert running.log.count(f"there is no topic {out} at {broker.bootstrap}: `headrace kafka") <= 2
        assert running.log.count(f"topic {out} takes messages now") == 1
    assert values(broker, out).keys() == of(0, 20)
    if exactly_once:
        assert set(values(broker, out).values()) == {1}


@pytest.mark.full_but("False")
@pytest.mark.parametrize("exactly_once", [False, True])
def test_only_the_partitions_that_write_to_a_missing_topic_wait_and_no_handler_is_stopped_for_it(
    broker: Broker, topic: str, tmp_path: Path, *, exactly_once: bool
) -> None:
    """Each message is large: a worker may have twenty on their way, and then its handler would wait.

    With exactlyOnce the topic is found missing at the commit: any number may be handled until then.
    """
    missing, there = f"{topic}-missing", broker.create_topic(1)
    handler = SENDS.replace("NAMES", repr({0: missing, 1: there}))
    folder = strict(tmp_path, broker, topic, handler, exactlyOnce=exactly_once, partitions=[0, 1])
    with (folder / "function.yaml").open("a") as spec:
        spec.write(f"  eventTimeout: {TIMEOUT_SECONDS}s\n")

    def handled() -> int:
        return sum(line.startswith("0 ") for line in lines(folder))

    produce(broker, topic, 200, partitions=2)
    with replica(folder) as running:
        not_ready(running, f"there is no topic {missing} at")
        wait_until(lambda: running.committed().get(1) == 100, 120, about=running)
        assert running.committed().get(0) in {0, None}
        before = handled()
        produce(broker, topic, 200, partitions=2)
        wait_until(lambda: running.committed().get(1) == 200, 120, about=running)
        is_over = time.monotonic() + TIMEOUT_SECONDS + 1
        wait_until(lambda: time.monotonic() > is_over, about=running)
        assert handled() == before
        broker.create(missing, 1)
        wait_until(lambda: running.committed().get(0) == 200, 120, about=running)
        nothing_failed(running, broker, topic, folder)
    assert values(broker, missing).keys() == of(0, 200)
    assert values(broker, there).keys() == of(1, 200)


@pytest.mark.full
def test_no_handler_is_stopped_for_a_broker_that_stands_still_for_longer_than_event_timeout(
    tmp_path: Path,
) -> None:
    """And for less than the session."""
    with embedded(records=1, out=1) as kafka:
        broker = Broker(kafka.bootstrap, "embedded")
        folder = strict(tmp_path, broker, "records", SENDS.replace("NAMES", repr({0: "out"})) + PAUSE)
        with (folder / "function.yaml").open("a") as spec:
            spec.write("  eventTimeout: 2s\n")
        with replica(folder) as running:
            running.wait_ready()
            produce(broker, "records", 300, partitions=1)
            wait_until(lambda: len(lines(folder)) >= 5, 90, about=running)
            assert kafka.pid is not None
            freeze(kafka.pid)
            try:
                is_over = time.monotonic() + 4
                wait_until(lambda: time.monotonic() > is_over, about=running)
            finally:
                os.kill(kafka.pid, signal.SIGCONT)
            wait_until(lambda: running.committed().get(0) == 300, 120, about=running)
            assert "eventTimeout" not in running.log
            nothing_failed(running, broker, "records", folder)
        assert values(broker, "out").keys() == of(0, 300)


@pytest.mark.full_but("True")
@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_topic_that_is_deleted_amid_its_messages_is_waited_for(
    broker: Broker, topic: str, tmp_path: Path, *, exactly_once: bool
) -> None:
    out = broker.create_topic(1)
    folder = strict(
        tmp_path, broker, topic, RETURNS, resultTopic=out, exactlyOnce=exactly_once, partitions=[0]
    )
    produce(broker, topic, 10, partitions=1)
    with replica(folder) as running:
        wait_until(lambda: running.committed().get(0) == 10, 90, about=running)
        broker.delete(out)
        produce(broker, topic, 10, partitions=1)
        not_ready(running, f"topic {out} at {broker.bootstrap}")
        broker.create(out, 1)
        wait_until(lambda: running.committed().get(0) == 20, 120, about=running)
        nothing_failed(running, broker, topic, folder)
    assert values(broker, out).keys() == of(0, 20) - of(0, 10)


@pytest.mark.full
def test_a_handler_that_awaits_a_message_for_a_missing_topic_waits_with_it(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    missing = f"{topic}-missing"
    handler = f"""
        async def handler(context, event):
            there = await context.produce("{missing}", str(event.offset))
            write(f"{{event.shard_id}} {{event.offset}} {{event.attempt}} {{there.offset}}")
    """
    folder = strict(tmp_path, broker, topic, handler, partitions=[0])
    produce(broker, topic, 3, partitions=1)
    with replica(folder) as running:
        not_ready(running, f"there is no topic {missing} at")
        assert lines(folder) == []
        broker.create(missing, 1)
        wait_until(lambda: running.committed().get(0) == 3, 90, about=running)
        nothing_failed(running, broker, topic, folder)
    assert lines(folder) == ["0 0 1 0", "0 1 1 1", "0 2 1 2"]
