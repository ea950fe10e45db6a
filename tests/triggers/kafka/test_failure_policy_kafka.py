"""The failure policy on a real broker: what is committed, what an operator sees and does, dead letters."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from broker import Broker
from command import one_line, run
from failing_records import HEADERS, act, attempts, halted_metric, partition, problems, read, send
from kafka_records import group_offsets, handled, produce, send_undecodable
from poison import dies, raises, rebalances
from replica import DECODED, replica, set_spec, wait_until, write_function
from scenario import Report

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.dead_letter_headers import split_headers
from headrace.runtime.kafka.topics import create_topics
from headrace.runtime.partitions.offsets.checkpoint_text import decode_text

QUICK = {"maxAttempts": 3, "backoff": "10ms", "maxBackoff": "20ms"}
FAILS_AT_5 = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {event.attempt}")
        if (event.shard_id, event.offset) == (3, 5) and not exists("mended"):
            raise ValueError("no such customer")
"""


def committed_attempts(
    broker: Broker, group: str, topic: str, partition: int
) -> tuple[tuple[int, int, int], ...]:
    """What the group's commit says of records that have failed: (offset, times)."""

    async def ask() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            return await admin.list_consumer_group_offsets(group)
        finally:
            await admin.close()

    commit = asyncio.run(ask())[TopicPartition(topic, partition)]
    found = decode_text(commit.offset, commit.metadata)
    assert found is not None
    return found.checkpoint.attempts


@pytest.mark.full_but("dies")
@pytest.mark.parametrize("scenario", [raises, dies, rebalances])
def test_what_the_storm_says(
    broker: Broker, tmp_path: Path, scenario: Callable[[Broker, Path, int, Report], None]
) -> None:
    report = Report()
    scenario(broker, tmp_path, 0, report)
    assert report.show(scenario.__name__)


# ---- attempts


@pytest.mark.full
@pytest.mark.usefixtures("either_path")
def test_the_attempt_count_survives_the_death_of_a_replica(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset} {event.attempt}")
            if event.offset == 5:
                if event.attempt == 2 and not exists("go"):
                    wait_for("never")
                raise ValueError("no")
    """
    folder = write_function(
        tmp_path / "f",
        handler,
        broker.bootstrap,
        [topic],
        partitions=[3],
        sessionTimeout="2s",
        onFailure=QUICK | {"maxAttempts": 4},
    )
    produce(broker, topic, 80)
    with replica(folder, name="-a") as first:
        wait_until(lambda: attempts(folder, 3, 5) == [1, 2], about=first)
        # it is committed by now: the second delivery has started
        assert committed_attempts(broker, f"group-{topic}", topic, 3) == ((5, 6, 1),)
        first.kill()
    (folder / "go").touch()
    with replica(folder, name="-b") as second:
        wait_until(lambda: partition(second, 3).get("state") == "halted", about=second)
        assert attempts(folder, 3, 5) == [1, 2, 2, 3, 4]
        wait_until(lambda: committed_attempts(broker, f"group-{topic}", topic, 3) == ((5, 6, 4),))


# ---- halt


def test_halt_is_red_until_an_operator_moves_it(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", FAILS_AT_5, broker.bootstrap, [topic], onFailure=QUICK)
    with replica(folder, "--replicas", "2") as running:
        running.wait_ready()
        # All have joined: each new assignment would be one more delivery.
        wait_until(lambda: [len(t["partitions"]) for t in running.triggers()] == [4, 4])
        produce(broker, topic, 80)
        wait_until(lambda: partition(running, 3).get("state") == "halted", about=running)
        wait_until(lambda: sum(map(len, handled(folder).values())) == 70 + 5 + 3, about=running)
        assert attempts(folder, 3, 5) == [1, 2, 3]
        line = f"{topic}/3 is halted at offset 5 after 3 attempts"
        wait_until(lambda: [p.endswith(f"records: {line}") for p in problems(running)] == [True])
        assert running.get("/ready")[0] == 503
        assert "no such customer" in running.log
        assert "no such customer" not in running.get("/api/status")[1]
        assert halted_metric(running, 3) == 1
        assert halted_metric(running, 2) == 0
        wait_until(lambda: partition(running, 3)["committed"] == 5, about=running)

        assert act(running, "skip", f"{topic}/2").returncode == 5
        retried = act(running, "retry", f"{topic}/3")
        assert (retried.returncode, retried.stderr) == (0, "")
        assert retried.stdout.endswith(f"{topic}/3: offset 5 is delivered once more\n")
        wait_until(lambda: attempts(folder, 3, 5) == [1, 2, 3, 4], about=running)
        wait_until(lambda: partition(running, 3)["state"] == "halted", about=running)

        skipped = act(running, "skip", f"{topic}/3")
        assert skipped.stdout.endswith(f"{topic}/3: offset 5 is skipped\n"), skipped
        running.wait_ready()
        wait_until(lambda: partition(running, 3)["committed"] == 10, about=running)
        assert halted_metric(running, 3) == 0
        assert running.stop() == 0
    assert attempts(folder, 3, 5) == [1, 2, 3, 4]
    assert handled(folder)[topic, 3] == [0, 1, 2, 3, 4, 5, 5, 5, 5, 6, 7, 8, 9]
    assert set(group_offsets(broker, f"group-{topic}").values()) == {10}


@pytest.mark.full
@pytest.mark.usefixtures("either_path")
def test_a_halted_record_gets_one_more_delivery_in_each_new_assignment(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", FAILS_AT_5, broker.bootstrap, [topic], partitions=[3], onFailure=QUICK
    )
    produce(broker, topic, 80)
    for name, expected in (("-a", [1, 2, 3]), ("-b", [1, 2, 3, 4])):
        with replica(folder, name=name) as running:
            wait_until(lambda r=running: partition(r, 3).get("state") == "halted", about=running)  # type: ignore[misc]
            assert attempts(folder, 3, 5) == expected
            assert running.stop() == 0
            assert group_offsets(broker, f"group-{topic}")[topic, 3] == 5
    (folder / "mended").touch()
    with replica(folder, name="-c") as running:
        wait_until(lambda: partition(running, 3).get("committed") == 10, about=running)
    assert attempts(folder, 3, 5) == [1, 2, 3, 4, 5]
    assert handled(folder)[topic, 3] == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 6, 7, 8, 9]


# ---- deadLetter


def test_failed_and_too_large_records_become_dead_letters_byte_for_byte(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    graves = broker.create_topic(4)
    folder = write_function(
        tmp_path / "f",
        FAILS_AT_5,
        broker.bootstrap,
        [topic],
        fetchMax=1000,
        onFailure=QUICK | {"then": "deadLetter", "deadLetterTopic": graves},
    )
    bodies = [bytes([n, 255, 0]) * (2000 if n == 7 else 1) for n in range(10)]
    sent = asyncio.run(send(broker, topic, bodies, 3))
    with replica(folder) as running:
        wait_until(lambda: partition(running, 3).get("committed") == 10, about=running)
        assert running.get("/ready")[0] == 200
        assert running.stop() == 0
    letters = asyncio.run(read(broker, graves, 2))
    assert [letter.value for letter in letters] == [bodies[5], bodies[7]]
    for letter, offset, error, tries in zip(
        letters, (5, 7), ("ValueError: no such customer", "more than fetchMax (1000)"), (3, 0), strict=True
    ):
        assert (letter.key, letter.partition) == (b"\xfe\x00", 3)
        own, provenance = split_headers(letter.headers)
        assert own == HEADERS
        assert provenance is not None
        assert error in provenance.error
        assert (provenance.topic, provenance.partition, provenance.offset) == (topic, 3, offset)
        assert (provenance.timestamp, provenance.attempts) == (sent[offset], tries)
        assert provenance.function == "f"
    assert handled(folder)[topic, 3] == [0, 1, 2, 3, 4, 5, 5, 5, 6, 8, 9]


@pytest.mark.full
def test_a_dead_letter_topic_that_is_not_there_holds_the_partition_until_it_is(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    if broker.kind == "given":
        pytest.skip("that broker may create topics by itself")
    graves = f"dlq-{uuid.uuid4().hex[:12]}"
    folder = write_function(
        tmp_path / "f",
        FAILS_AT_5,
        broker.bootstrap,
        [topic],
        onFailure=QUICK | {"then": "deadLetter", "deadLetterTopic": graves},
    )
    produce(broker, topic, 80)
    with replica(folder) as running:
        wait_until(
            lambda: running.url and any("dead" in first for first in problems(running)[:1]), about=running
        )
        (problem,) = problems(running)
        assert f"{topic}/3 is writing a dead letter at offset 5: there is no dead-letter topic" in problem
        assert f"headrace kafka topics --create {graves}" in problem
        assert running.get("/ready")[0] == 503
        wait_until(lambda: sum(map(len, handled(folder).values())) == 70 + 5 + 3, about=running)
        wait_until(lambda: partition(running, 3)["committed"] == 5, about=running)
        assert halted_metric(running, 3) == 1
        asyncio.run(create_topics(BrokerAccess(broker.bootstrap), {graves: 1}))
        running.wait_ready()
        wait_until(lambda: partition(running, 3)["committed"] == 10, about=running)
        assert running.stop() == 0
    assert attempts(folder, 3, 5) == [1, 2, 3]
    (letter,) = asyncio.run(read(broker, graves, 1))
    assert letter.value.startswith(b"43")


# ---- skip, limits


@pytest.mark.full
def test_skip_and_time_and_memory_go_by_the_function_yaml(broker: Broker, topic: str, tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset} {event.attempt}")
            if (event.shard_id, event.offset) == (3, 5):
                await asyncio.sleep(600)
            if (event.shard_id, event.offset) == (4, 5):
                context.user_data.much = b"x" * (150 << 20)
                await asyncio.sleep(600)
    """
    folder = write_function(
        tmp_path / "f",
        handler,
        broker.bootstrap,
        [topic],
        onFailure=QUICK | {"then": "skip", "maxAttempts": 2},
    )
    set_spec(folder, eventTimeout="700ms", resources={"limits": {"memory": "96Mi"}})
    produce(broker, topic, 80)
    with replica(folder) as running:
        wait_until(lambda: set(running.committed().values()) == {10}, about=running)
        assert running.stop() == 0
        assert "it ran past eventTimeout and was cancelled" in running.log
        assert "more than resources.limits.memory (96 MiB)" in running.log
    assert attempts(folder, 3, 5) == attempts(folder, 4, 5) == [1, 2]
    assert {key: sorted(set(offsets)) for key, offsets in handled(folder).items()} == {
        (topic, number): list(range(10)) for number in range(8)
    }


@pytest.mark.full
def test_a_handler_whose_import_is_above_its_memory_limit_is_one_line(tmp_path: Path) -> None:
    handler = """
        much = b"x" * (150 << 20)
        def handler(context, event): ...
    """
    folder = write_function(tmp_path / "f", handler, "127.0.0.1:1", ["t"])
    set_spec(folder, resources={"limits": {"memory": "96Mi"}})
    result = run("run", str(folder), "--admin-port", "0")
    line = one_line(result, code=2)
    assert "spec.handler function_code:handler: it used" in line
    assert "more than resources.limits.memory (96 MiB) allows, while loading the handler" in line
    assert result.stderr.count("resources.limits.memory") == 1


def test_a_record_that_cannot_be_decoded_can_be_retried_and_skipped(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, 80)
    send_undecodable(broker, topic)
    produce(broker, topic, 80)
    folder = write_function(tmp_path / "f", FAILS_AT_5, broker.bootstrap, [topic], partitions=[3], **DECODED)
    (folder / "mended").touch()
    with replica(folder) as running:
        wait_until(lambda: partition(running, 3).get("committed") == 10, about=running)
        wait_until(lambda: partition(running, 3)["state"] == "halted", about=running)
        (problem,) = problems(running)
        assert f"{topic}/3 is halted at offset 10: the record can't be decoded" in problem
        retried = act(running, "retry", f"{topic}/3")
        assert retried.stdout == f"{topic}/3: offset 10 is fetched once more\n"
        wait_until(lambda: running.log.count(f"{topic}/3 is halted at offset 10") == 2, about=running)
        assert act(running, "skip", f"{topic}/3").stdout == f"{topic}/3: offset 10 is skipped\n"
        running.wait_ready()
        wait_until(lambda: partition(running, 3)["committed"] == 21, about=running)
        assert running.stop() == 0
    assert handled(folder)[topic, 3] == [*range(10), *range(11, 21)]
