"""`headrace deadletters`, on a real broker: what an operator sees of failed records, and how they go back."""

import asyncio
import json
import socket
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.structs import ConsumerRecord
from broker import Broker
from click.testing import CliRunner, Result
from dead_letters import Record, dead_letters, written
from refusal import refused

from headrace.runtime.cli.kafka.dead_letters import deadletters
from headrace.runtime.errors import BrokerError, UsageError
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.topics import create_topics

TRACEBACK = (
    'Traceback (most recent call last):\n  File "shop.py", line 3\nValueError: no [bold]such\x1b[2J item'
)
FIRST = "headrace-first-timestamp"
HEADERS = (("trace", b"\x00\xff"), ("twice", b"1"), ("none", None), ("twice", b"2"))


def run(broker: Broker, *arguments: str) -> Result:
    environment = {"HEADRACE_BROKERS": broker.bootstrap, "COLUMNS": "250"}
    return CliRunner().invoke(deadletters, arguments, env=environment)


def fail(broker: Broker, topic: str, source: str, records: Sequence[tuple[int, Record]]) -> None:
    """Records of (source partition) in the dead-letter topic, one after the other."""

    async def write() -> None:
        async with dead_letters(broker.bootstrap, topic) as letters:
            for partition, record in records:
                await letters.write(record, source, partition, TRACEBACK, 4)
                await asyncio.sleep(0.002)  # lists are in order of their times, which are in ms

    asyncio.run(write())


def send(broker: Broker, topic: str, value: bytes, key: bytes | None = None) -> None:
    """A record that is no dead letter."""

    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait(topic, value, key=key, partition=0)

    asyncio.run(produce())


def records_in(broker: Broker, topic: str, count: int) -> list[ConsumerRecord]:
    found = asyncio.run(written(broker.bootstrap, topic, count))
    return sorted(found, key=lambda record: (record.partition, record.offset))


def test_a_list_shows_where_each_record_came_from_and_why(broker: Broker, topic: str) -> None:
    fail(broker, topic, "orders", [(3, Record(offset=41)), (3, Record(offset=42))])
    send(broker, topic, b"stray")
    result = run(broker, "list", topic)
    assert result.exit_code == 0, result.exception
    rows = [line for line in result.stdout.splitlines() if "orders/3" in line]
    assert "3/0" in rows[0]
    assert "orders/3/41" in rows[0]
    assert datetime.now(UTC).strftime("%Y-") in rows[0]  # when it failed
    assert "ValueError: no [bold]such" in rows[0]
    assert "Traceback" not in result.stdout
    assert "\x1b[2J" not in result.stdout
    assert "orders/3/42" in rows[1]
    assert "doesn't say where it comes from" in result.stdout


def test_a_list_for_programs_is_a_json_line_per_record(broker: Broker, topic: str) -> None:
    fail(broker, topic, "orders", [(3, Record(key=b"\xff", value="thrée".encode(), headers=HEADERS))])
    send(broker, topic, b"stray")
    lines: list[dict[str, Any]] = [
        json.loads(it) for it in run(broker, "list", topic, "--json").stdout.splitlines()
    ]
    assert lines[0].pop("timestamp") > 1_700_000_000_123
    assert lines[0] == {
        "partition": 3,
        "offset": 0,
        "key": {"base64": "/w=="},
        "body": "thrée",
        "headers": [["trace", {"base64": "AP8="}], ["twice", "1"], ["none", None], ["twice", "2"]],
        "provenance": {
            "topic": "orders",
            "partition": 3,
            "offset": 41,
            "timestamp": 1_700_000_000_123,
            "error": TRACEBACK,
            "attempts": 4,
            "function": "shop",
        },
    }
    assert lines[1]["provenance"] is None


def test_a_list_ends_at_its_limit_and_says_so(broker: Broker, topic: str) -> None:
    fail(broker, topic, "orders", [(n % 3, Record(offset=n, timestamp=1000 + n)) for n in range(12)])
    result = run(broker, "list", topic, "--limit", "5", "--json")
    offsets = [json.loads(line)["provenance"]["offset"] for line in result.stdout.splitlines()]
    assert offsets == [7, 8, 9, 10, 11]
    assert result.stderr == "the newest 5 of 12; --limit shows more\n"
    assert run(broker, "list", topic, "--limit", "12").stderr == ""


def test_an_empty_topic_is_said_to_be_empty(broker: Broker, topic: str) -> None:
    assert run(broker, "list", topic).stdout == f"{topic} is empty\n"
    assert run(broker, "list", topic, "--json").stdout == ""
    assert run(broker, "replay", topic, "--all").stderr == f"0 written, 0 skipped; {topic} keeps them\n"


def test_show_shows_everything_of_one_record(broker: Broker, topic: str) -> None:
    text, binary = b'{"id": 1}\nsecond', bytes(range(40))
    fail(
        broker,
        topic,
        "orders",
        [(0, Record(value=text, headers=HEADERS)), (0, Record(key=None, value=binary))],
    )
    shown = run(broker, "show", topic, "0/0").stdout
    for expected in (
        "record    0/0",
        "source    orders/0/41",
        "attempts  4",
        "function  shop",
        "key: 1 bytes\n    k\n",
        'body: 16 bytes\n    {"id": 1}\n    second\n',
        "Traceback (most recent",
        "header none: none",
        "header trace: 2 bytes\n    00ff\n",
        "header twice: 1 bytes\n    1\nheader none",
    ):
        assert expected in shown
    assert "headrace-" not in shown
    assert "\x1b" not in shown
    shown = run(broker, "show", topic, "0/1").stdout
    assert "key: none" in shown
    assert "body: 40 bytes\n    0001 0203" in shown


def test_places_without_a_record_are_named(broker: Broker, topic: str) -> None:
    fail(broker, topic, "orders", [(0, Record())])
    for command in ("show", "replay"):
        line = refused(run(broker, command, topic, "0/1"), UsageError, 2)
        assert line == f"topic {topic} has no record 0/1: partition 0 holds offsets 0 to 0"
        line = refused(run(broker, command, topic, "5/0"), UsageError, 2)
        assert line == f"topic {topic} has no record 5/0: partition 5 is empty"
        assert "has partitions 0 to 7: not 8" in refused(run(broker, command, topic, "8/0"), UsageError, 2)
        result = run(broker, command, topic, "zero")
        assert result.exit_code == 2
        assert "'zero' is not PARTITION/OFFSET, as in 0/12" in result.stderr


def test_replay_writes_records_back_byte_for_byte_and_keeps_them(broker: Broker, topic: str) -> None:
    source = broker.create_topic(6)
    originals = [
        Record(offset=41, key=b"\xff", value=b"\x00\xfe", headers=HEADERS),
        Record(offset=42, key=None, value=None, timestamp=1_700_000_000_000),
        Record(offset=43, value=b""),
    ]
    fail(broker, topic, source, [(5, record) for record in originals])

    result = run(broker, "replay", topic, "--all", "--source", source)

    assert result.exit_code == 0, result.exception
    assert result.stdout.splitlines() == [f"5/{n} -> {source}/5 offset {n}" for n in range(3)]
    assert result.stderr == f"3 written, 0 skipped; {topic} keeps them\n"
    for original, found in zip(originals, records_in(broker, source, 3), strict=True):
        assert (found.partition, found.key, found.value) == (5, original.key, original.value)
        assert found.headers == (*original.headers, (FIRST, str(original.timestamp).encode()))
    assert len(records_in(broker, topic, 3)) == 3


def test_a_replayed_record_has_the_present_time_so_that_retention_leaves_it(
    broker: Broker, topic: str
) -> None:
    source = broker.create_topic(1)
    fail(broker, topic, source, [(0, Record()), (0, Record(timestamp=None))])
    before = time.time() * 1000 - 1
    assert run(broker, "replay", topic, "--all", "--source", source).exit_code == 0
    first, second = records_in(broker, source, 2)
    assert min(first.timestamp, second.timestamp) >= before
    assert first.headers == ((FIRST, b"1700000000123"),)
    assert second.headers == ()  # it never had one


def test_the_first_time_outlives_a_second_failure_and_replay(broker: Broker, topic: str) -> None:
    source = broker.create_topic(1)
    again = Record(timestamp=1_800_000_000_000, headers=((FIRST, b"1700000000123"), ("own", b"1")))
    fail(broker, topic, source, [(0, again)])
    assert run(broker, "replay", topic, "--all", "--source", source).exit_code == 0
    (found,) = records_in(broker, source, 1)
    assert found.headers == (("own", b"1"), (FIRST, b"1700000000123"))


def test_a_stray_record_keeps_its_own_time_as_its_first(broker: Broker, topic: str) -> None:
    send(broker, topic, b"stray")
    (stray,) = records_in(broker, topic, 1)
    other = broker.create_topic(1)
    assert run(broker, "replay", topic, "--all", "--to", other).exit_code == 0
    (found,) = records_in(broker, other, 1)
    assert found.headers == ((FIRST, str(stray.timestamp).encode()),)


def made(broker: Broker, **settings: str) -> str:
    """A topic of one partition with these settings, dots as underscores."""
    name = f"source-{uuid.uuid4().hex}"
    config = {key.replace("_", "."): value for key, value in settings.items()}
    asyncio.run(create_topics(BrokerAccess(broker.bootstrap), {name: 1}, config))
    return name


@pytest.mark.parametrize(
    "settings",
    [
        {"retention_ms": "-1"},
        {"cleanup_policy": "compact", "retention_ms": "86400000"},
        # For longer than this test may take: brokers delete what is older.
        {"message_timestamp_type": "LogAppendTime", "retention_ms": "86400000"},
    ],
)
def test_first_times_are_kept_where_they_do_no_harm(
    broker: Broker, topic: str, settings: dict[str, str]
) -> None:
    source = made(broker, **settings)
    record = Record(timestamp=1_800_000_000_000, headers=((FIRST, b"1700000000123"),))
    fail(broker, topic, source, [(0, Record()), (0, record)])
    result = run(broker, "replay", topic, "--all", "--source", source, "--keep-timestamps")
    assert result.exit_code == 0, result.exception
    found = records_in(broker, source, 2)
    if settings.get("message_timestamp_type"):  # where the broker gives its own, the header has them
        assert [it.headers for it in found] == [((FIRST, b"1700000000123"),)] * 2
    else:
        assert [(it.timestamp, it.headers) for it in found] == [(1_700_000_000_123, ())] * 2


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"retention_ms": "86400000"}, "would be deleted: retention.ms is 86400000"),
        (
            {"cleanup_policy": "compact,delete", "retention_ms": "86400000"},
            "would be deleted: retention.ms is 86400000",
        ),
        (
            {"retention_ms": "-1", "message_timestamp_before_max_ms": "1000"},
            "would be refused: message.timestamp.before.max.ms is 1000",
        ),
    ],
)
def test_first_times_that_would_lose_a_record_are_refused_before_anything_is_written(
    broker: Broker, topic: str, settings: dict[str, str], why: str
) -> None:
    source = made(broker, **settings)
    young = Record(timestamp=round(time.time() * 1000))
    fail(broker, topic, source, [(0, young), (0, Record())])
    result = run(broker, "replay", topic, "--all", "--source", source, "--keep-timestamps")
    assert refused(result, UsageError, 2) == (
        f"0/1 is of 2023-11-14T22:13:20.123Z: in {source} it {why}. "
        f"Leave --keep-timestamps out, or change that of the topic"
    )
    assert result.stdout == ""
    records_in(broker, source, 0)


def test_a_first_time_to_come_is_refused_where_the_topic_refuses_it(broker: Broker, topic: str) -> None:
    source = made(broker, message_timestamp_after_max_ms="1000")
    fail(broker, topic, source, [(0, Record(timestamp=4_000_000_000_000))])
    result = run(broker, "replay", topic, "0/0", "--source", source, "--keep-timestamps")
    assert "message.timestamp.after.max.ms is 1000" in refused(result, UsageError, 2)


def test_replay_takes_the_records_that_it_is_told_once_each(broker: Broker, topic: str) -> None:
    source = broker.create_topic(1)
    fail(broker, topic, source, [(0, Record(offset=n, value=b"%d" % n)) for n in range(4)])
    result = run(broker, "replay", topic, "0/2", "0/0", "0/2", "--source", source)
    assert result.exit_code == 0, result.exception
    assert [record.value for record in records_in(broker, source, 2)] == [b"2", b"0"]


def test_a_source_partition_that_is_gone_is_replaced_by_the_key(broker: Broker, topic: str) -> None:
    source = broker.create_topic(2)
    fail(broker, topic, source, [(7, Record(offset=n, key=b"same")) for n in range(6)])
    assert run(broker, "replay", topic, "--all", "--source", source).exit_code == 0
    assert len({record.partition for record in records_in(broker, source, 6)}) == 1


def test_records_that_have_nowhere_to_go_are_skipped_unless_a_topic_is_named(
    broker: Broker, topic: str
) -> None:
    fail(broker, topic, f"gone-{topic}", [(0, Record(key=b"k"))])
    send(broker, topic, b"stray")
    skipped = run(broker, "replay", topic, "--all", "--source", f"gone-{topic}")
    assert skipped.exit_code == 0
    assert skipped.stdout.splitlines() == [
        f"0/0 skipped: there is no topic gone-{topic}; --to names another one",
        "0/1 skipped: it doesn't say where it comes from; --to names a topic",
    ]
    assert skipped.stderr == f"0 written, 2 skipped; {topic} keeps them\n"

    other = broker.create_topic(1)
    assert run(broker, "replay", topic, "--all", "--to", other).exit_code == 0
    assert [record.value for record in records_in(broker, other, 2)] == [b"v", b"stray"]


def test_a_replay_into_the_same_topic_ends(broker: Broker, topic: str) -> None:
    fail(broker, topic, topic, [(0, Record()), (0, Record())])
    assert run(broker, "replay", topic, "--all", "--source", topic).exit_code == 0
    records_in(broker, topic, 4)


def test_a_replay_that_the_broker_refuses_says_how_far_it_came(broker: Broker, topic: str) -> None:
    source = f"small-{uuid.uuid4().hex}"
    asyncio.run(create_topics(BrokerAccess(broker.bootstrap), {source: 1}, {"max.message.bytes": "2000"}))
    fail(broker, topic, source, [(0, Record()), (0, Record(value=b"." * 3000)), (0, Record())])
    result = run(broker, "replay", topic, "--all", "--source", source)
    line = refused(result, BrokerError, 3)
    assert line.startswith(f"0/1 to {source}/0: the broker at {broker.bootstrap} refused: ")
    assert result.stdout == f"0/0 -> {source}/0 offset 0\n"
    assert result.stderr == f"1 written, 0 skipped; {topic} keeps them\n"


def test_a_record_goes_nowhere_that_nobody_has_named(broker: Broker, topic: str) -> None:
    source, victim = broker.create_topic(1), broker.create_topic(1)
    fail(broker, topic, victim, [(0, Record(value=b"forged"))])
    fail(broker, topic, "\x1b]0;x\x07", [(0, Record())])
    result = run(broker, "replay", topic, "--all", "--source", source)
    assert result.stdout.splitlines()[0].endswith(f"comes from {victim}; --source {victim} lets it go there")
    assert "\x1b" not in result.stdout
    assert result.stderr == f"0 written, 2 skipped; {topic} keeps them\n"


def test_replay_wants_to_know_which_records(broker: Broker, topic: str) -> None:
    for arguments in (("replay", topic), ("replay", topic, "--all", "0/1")):
        result = run(broker, *arguments)
        assert result.exit_code == 2
        assert "say which records" in result.stderr


def test_that_a_second_replay_writes_again_is_said_in_the_help() -> None:
    assert "replaying twice writes twice" in CliRunner().invoke(deadletters, ["replay", "--help"]).stdout


COMMANDS = [("list", "nope"), ("show", "nope", "0/0"), ("replay", "nope", "--all"), ("replay", "nope", "0/0")]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_topic_that_is_not_there_is_one_line_and_is_not_made(
    broker: Broker, arguments: tuple[str, ...]
) -> None:
    for _ in range(2):
        line = refused(run(broker, *arguments), BrokerError, 3)
        assert line.startswith(f"there is no topic nope at {broker.bootstrap}")


@pytest.mark.parametrize("name", ["", "a b", "å", "."])
def test_a_name_that_no_topic_can_have_is_one_line(broker: Broker, name: str) -> None:
    assert "there is no topic" in refused(run(broker, "list", name), BrokerError, 3)


def test_a_target_that_is_not_there_is_one_line(broker: Broker, topic: str) -> None:
    line = refused(run(broker, "replay", topic, "--all", "--to", "nope"), BrokerError, 3)
    assert line.startswith("there is no topic nope")


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_broker_that_does_not_answer_is_one_line(arguments: tuple[str, ...]) -> None:
    with socket.socket() as silent:  # bound, not listening: refuses
        silent.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        result = CliRunner().invoke(deadletters, [*arguments, "--brokers", where])
    assert f"no Kafka broker answers at {where}" in refused(result, BrokerError, 3)


def test_aborted_and_compacted_offsets_hold_nothing_up(broker: Broker, topic: str) -> None:
    async def abort() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
        async with producer, producer.transaction():
            await producer.send_and_wait(topic, b"stray", partition=0)

    asyncio.run(abort())  # the commit marker is an offset without a record
    assert len(run(broker, "list", topic, "--json").stdout.splitlines()) == 1
    assert "has no record 0/1" in refused(run(broker, "show", topic, "0/1"), UsageError, 2)
