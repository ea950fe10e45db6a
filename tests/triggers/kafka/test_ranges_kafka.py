"""`delivery: ranges` in a running system, on a real broker: offsets are handed out, nobody fetches."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from failing_records import HEADERS, read, send
from kafka_records import group_offsets, produce, send_while_replicas_come_and_go, truncate
from replica import Replica, lines, replica, set_trigger, wait_until, write_function

# One line for each batch: its attempt, then partition, first and last offset of each range.
WRITES = """
    import json
    def handler(context, events):
        assert all(event.body is None for event in events)
        found = [[event.shard_id, event.first_offset, event.offset] for event in events]
        write(json.dumps([max(event.attempt for event in events), found]))
        if exists("hold"):
            wait_for("go")
"""
Range = tuple[int, int, int]


def function(folder: Path, handler: str, broker: Broker, topic: str, size: int, **attributes: Any) -> Path:
    write_function(folder, handler, broker.bootstrap, [topic], **attributes, delivery="ranges")
    return set_trigger(folder, batch={"mode": "enable", "batchSize": size, "timeout": "100ms"})


def batches(folder: Path) -> list[list[Range]]:
    return [[(n, first, last) for n, first, last in json.loads(line)[1]] for line in lines(folder)]


def ranges(folder: Path, partition: int) -> list[tuple[int, int]]:
    return [(first, last) for batch in batches(folder) for n, first, last in batch if n == partition]


def count(folder: Path) -> int:
    return sum(last - first + 1 for batch in batches(folder) for _, first, last in batch)


@contextmanager
def running(folder: Path, name: str = "") -> Iterator[Replica]:
    with replica(folder, name=name) as found:
        yield found
        assert found.stop() == 0


@pytest.mark.full
def test_every_offset_is_handed_out_once_in_batches_of_at_most_their_size(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, 4000)
    folder = function(tmp_path / "f", WRITES, broker, topic, 800)
    with running(folder) as first:
        wait_until(lambda: count(folder) == 4000, about=first)
        produce(broker, topic, 80)
        wait_until(lambda: count(folder) == 4080, about=first)
    assert max(sum(last - first + 1 for _, first, last in batch) for batch in batches(folder)) == 800
    for partition in range(8):
        found = ranges(folder, partition)
        assert [first for first, _ in found] == [0, *(last + 1 for _, last in found[:-1])]
    assert group_offsets(broker, f"group-{topic}") == {(topic, partition): 510 for partition in range(8)}


@pytest.mark.full
def test_a_new_owner_repeats_a_range_as_it_was_whatever_has_come_since(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = function(
        tmp_path / "f", WRITES, broker, topic, 150, partitions=[0], sessionTimeout="2s", workers=1
    )
    (folder / "hold").touch()
    produce(broker, topic, 100, partitions=1)
    with replica(folder, name="-a") as first:
        wait_until(lambda: count(folder) == 100, about=first)
        first.kill()
    (folder / "hold").unlink()
    (folder / "go").touch()
    produce(broker, topic, 100, partitions=1)
    with running(folder, name="-b") as second:
        wait_until(lambda: count(folder) == 300, about=second)
    assert ranges(folder, 0) == [(0, 99), (0, 99), (100, 199)]
    assert group_offsets(broker, f"group-{topic}") == {(topic, 0): 200}


@pytest.mark.full
def test_replicas_that_join_and_leave_cost_ranges_no_repetition(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = function(tmp_path / "f", WRITES, broker, topic, 100)
    sent = send_while_replicas_come_and_go(broker, topic, folder, lambda: count(folder))
    assert count(folder) == sent


def test_a_bad_record_is_found_by_halves_and_becomes_a_dead_letter_byte_for_byte(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, events):
            for event in events:
                write(f"{event.first_offset} {event.offset}")
                if event.first_offset <= 5 <= event.offset:
                    raise ValueError("no")
    """
    dead = broker.create_topic(1)
    failure = {"maxAttempts": 2, "backoff": "10ms", "then": "deadLetter", "deadLetterTopic": dead}
    folder = function(tmp_path / "f", handler, broker, topic, 8, partitions=[0], onFailure=failure)
    asyncio.run(send(broker, topic, [str(n).encode() for n in range(8)], 0))
    with running(folder) as only:
        wait_until(lambda: group_offsets(broker, f"group-{topic}").get((topic, 0)) == 8, about=only)
    found = [tuple(map(int, line.split())) for line in lines(folder)]
    assert found == [(0, 7), (0, 7), (0, 3), (4, 7), (4, 5), (4, 4), (5, 5), (6, 7)]
    (letter,) = asyncio.run(read(broker, dead, 1))
    assert (letter.key, letter.value) == (b"\xfe\x00", b"5")
    assert list(letter.headers[: len(HEADERS)]) == HEADERS


@pytest.mark.full
def test_a_range_is_acked_through_its_last_offset_and_no_other(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        import nuclio_sdk
        async def handler(context, events):
            (event,) = events
            write(f"{event.first_offset} {event.offset}")
            inside = nuclio_sdk.QualifiedOffset(event.topic, event.shard_id, event.first_offset)
            try:
                await context.platform.explicit_ack(inside)
            except ValueError as error:
                write(error, "errors")
            while not exists("go"):
                await asyncio.sleep(0.01)
            await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
    """
    folder = function(
        tmp_path / "f",
        handler,
        broker,
        topic,
        100,
        partitions=[0],
        workerAllocationMode="static",
        workers=1,
    )
    set_trigger(folder, explicitAckMode="explicitOnly")
    produce(broker, topic, 10, partitions=1)
    with running(folder) as only:
        wait_until(lambda: lines(folder), about=only)
        produce(broker, topic, 10, partitions=1)
        wait_until((folder / "errors").exists, about=only)
        assert group_offsets(broker, f"group-{topic}")[topic, 0] == 0
        (folder / "go").touch()
        wait_until(lambda: group_offsets(broker, f"group-{topic}")[topic, 0] == 20, about=only)
    assert lines(folder) == ["0 9", "10 19"]
    assert "lies inside the range of offsets 0 to 9; ack its last one" in (folder / "errors").read_text()


def test_with_read_committed_a_range_ends_before_an_open_transaction(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = function(
        tmp_path / "f", WRITES, broker, topic, 100, partitions=[0], isolationLevel="read_committed"
    )

    async def produce_in_transactions() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"committed", partition=0)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"open", partition=0)
            await asyncio.to_thread(wait_until, lambda: ranges(folder, 0), about=only)
            assert ranges(folder, 0) == [(0, 1)]  # the mark of the end of a transaction has an offset too
            await producer.commit_transaction()

    with running(folder) as only:
        only.wait_ready()
        asyncio.run(produce_in_transactions())
        wait_until(lambda: count(folder) == 4, about=only)
    assert ranges(folder, 0) == [(0, 1), (2, 3)]


def test_offsets_that_the_log_has_no_more_are_skipped_loudly(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = function(tmp_path / "f", WRITES, broker, topic, 100, partitions=[0])
    produce(broker, topic, 10, partitions=1)
    with running(folder, name="-a") as first:
        wait_until(lambda: group_offsets(broker, f"group-{topic}").get((topic, 0)) == 10, about=first)
    produce(broker, topic, 20, partitions=1)
    truncate(broker, topic, 0, before=15)
    with running(folder, name="-b") as second:
        second.logged("offset 10 is out of range, going on with 15")
        wait_until(lambda: count(folder) == 25, about=second)
    assert ranges(folder, 0) == [(0, 9), (15, 29)]
