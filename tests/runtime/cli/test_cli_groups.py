"""`headrace kafka groups`, `lag` and `seek`, on a real broker with real members."""

import asyncio
import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from broker import Broker
from click.testing import CliRunner, Result
from kafka_records import group_offsets, produce
from refusal import refused
from replica import lines, replica, wait_until, write_function

from headrace.runtime.cli.main import headrace
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.errors import BrokerError, UsageError
from headrace.runtime.kafka import seek as group_seek
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.groups import ConsumerGroup, NoSuchGroupError, list_groups, read_lag
from headrace.runtime.kafka.seek import GroupHasMembersError

WRITES = """
    def handler(context, event):
        write(f"{event.shard_id} {event.offset}")
"""


TRICKS = "[red]\x1b]0;you\x07\r\nand\u202e me"


def run(broker: Broker, *arguments: str) -> Result:
    environment = {"HEADRACE_BROKERS": broker.bootstrap, "COLUMNS": "120"}
    return CliRunner().invoke(headrace, ["kafka", *arguments], env=environment)


def answer(broker: Broker, *arguments: str) -> Any:
    result = run(broker, *arguments, "--json")
    assert result.exit_code == 0, result.exception or result.output
    return json.loads(result.stdout)


def commit(broker: Broker, group: str, topic: str, offsets: dict[int, int], metadata: str = "") -> None:
    """As a consumer that was there once."""

    async def main() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, number) for number in offsets])
            told = {TopicPartition(topic, number): (offset, metadata) for number, offset in offsets.items()}
            await consumer.commit(told)
        finally:
            await consumer.stop()

    asyncio.run(main())


def after(broker: Broker, group: str, *arguments: str) -> dict[int, int]:
    """Seek; the offsets that it tells by partition, which are those that the broker has."""
    moves = answer(broker, "seek", group, *arguments)["moves"]
    told = {move["partition"]: move["after"] for move in moves}
    held = group_offsets(broker, group)
    assert {move["partition"]: held[move["topic"], move["partition"]] for move in moves} == told
    return told


def test_lag_is_the_way_from_the_commit_to_the_end(broker: Broker, topic: str) -> None:
    produce(broker, topic, 80)
    commit(broker, f"g-{topic}", topic, {0: 10, 1: 4})

    told = answer(broker, "lag", f"g-{topic}")

    assert (told["name"], told["state"], told["members"], told["lag"]) == (f"g-{topic}", "Empty", [], 6)
    assert told["partitions"] == [
        {"topic": topic, "partition": 0, "committed": 10, "end": 10, "client": None, "lag": 0},
        {"topic": topic, "partition": 1, "committed": 4, "end": 10, "client": None, "lag": 6},
    ]
    shown = run(broker, "lag", f"g-{topic}").stdout
    assert shown.splitlines()[-1] == f"group g-{topic} is Empty; lag 6 in all"


def test_lag_is_watched_until_it_has_been_looked_at_so_often(broker: Broker, topic: str) -> None:
    produce(broker, topic, 80)
    commit(broker, f"g-{topic}", topic, {1: 4})
    shown = run(broker, "lag", f"g-{topic}", "--watch", "--count", "2", "--interval", "0.1")
    assert shown.exit_code == 0, shown.exception
    heads, *rows = (line.split() for line in shown.stdout.splitlines())
    assert heads == ["time", "topic", "partition", "committed", "end", "lag", "member"]
    assert [row[1:] for row in rows] == [[topic, "1", "4", "10", "6", "-"]] * 2


def test_what_is_watched_is_not_json(broker: Broker, topic: str) -> None:
    assert "give one of them" in refused(run(broker, "lag", "g", "--watch", "--json"), UsageError)


def test_members_are_shown_with_what_they_have_and_keep_seek_away(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    group = f"group-{topic}"
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    produce(broker, topic, 80)
    with replica(folder, "--replicas", "2") as running:
        running.wait_ready()
        wait_until(lambda: len(lines(folder)) == 80, about=running)
        wait_until(lambda: answer(broker, "lag", group)["lag"] == 0, about=running)
        told = answer(broker, "lag", group)
        clients = {member["client"] for member in told["members"]}
        assert clients == {"headrace-f-records-replica-0", "headrace-f-records-replica-1"}
        assert {row["client"] for row in told["partitions"]} == clients
        listed = {found["name"]: found for found in answer(broker, "groups")}
        assert (listed[group]["state"], len(listed[group]["members"])) == ("Stable", 2)
        line = refused(run(broker, "seek", group, topic, "--to", "earliest"), GroupHasMembersError)
        assert line.startswith(f"group {group} has members (headrace-f-records-replica-0 on ")
        assert running.stop() == 0
    assert group_offsets(broker, group) == {(topic, number): 10 for number in range(8)}

    assert after(broker, group, f"{topic}/3", "--to", "4") == {3: 4}
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 86, about=running)
        assert running.stop() == 0
    assert lines(folder)[80:] == [f"3 {offset}" for offset in range(4, 10)]


def test_a_seek_goes_to_an_end_an_offset_or_a_time(broker: Broker, topic: str) -> None:
    group = f"g-{topic}"
    day = (datetime.now(UTC) - timedelta(days=2)).date()  # a broker drops what is older than a week
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for hour in range(5):
                at = int((noon + timedelta(hours=hour)).timestamp() * 1000)
                await producer.send_and_wait(topic, b"x", partition=2, timestamp_ms=at)

    asyncio.run(send())
    commit(broker, group, topic, {2: 3}, metadata="what we noted")

    first = answer(broker, "seek", group, f"{topic}/2", "--to", "earliest")
    assert first["moves"] == [{"topic": topic, "partition": 2, "before": 3, "after": 0}]
    assert metadata(broker, group) == {""}
    assert after(broker, group, f"{topic}/2", "--to", "latest") == {2: 5}
    assert after(broker, group, f"{topic}/2", "--to", "5") == {2: 5}
    assert after(broker, group, f"{topic}/2", "--to", f"{day}T14:00:00Z") == {2: 2}
    assert after(broker, group, f"{topic}/2", "--to", f"{day}T14:00:01") == {2: 3}
    assert after(broker, group, f"{topic}/2", "--to", f"{day}T14:00:00+01:00") == {2: 1}
    assert after(broker, group, f"{topic}/2", "--to", f"{day + timedelta(days=400)}") == {2: 5}
    assert after(broker, group, topic, f"{topic}/2", "--to", "earliest") == dict.fromkeys(range(8), 0)
    shown = run(broker, "seek", group, f"{topic}/2", "--to", "1").stdout
    assert all(word in shown for word in ("before", "after", topic))


def metadata(broker: Broker, group: str) -> set[str]:
    async def main() -> set[str]:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            return {said.metadata for said in (await admin.list_consumer_group_offsets(group)).values()}
        finally:
            await admin.close()

    return asyncio.run(main())


def test_what_is_not_there_is_one_line_and_moves_nothing(broker: Broker, topic: str) -> None:
    group = f"g-{topic}"
    commit(broker, group, topic, {0: 0})
    missing = refused(run(broker, "lag", f"no-{topic}"), NoSuchGroupError)
    assert missing.startswith(f"there is no consumer group no-{topic} at {broker.bootstrap}")
    for place, to, kind, line in (
        ("nope", "earliest", BrokerError, f"there is no topic nope at {broker.bootstrap}"),
        (f"{topic}/8", "earliest", UsageError, f"topic {topic} has partitions 0 to 7: not 8"),
        (topic, "1", UsageError, f"{topic}/0 has offsets 0 to 0, its end: not 1"),
    ):
        assert refused(run(broker, "seek", group, place, "--to", to), kind).startswith(line)
    line = refused(run(broker, "seek", f"no-{topic}", topic, "--to", "latest"), NoSuchGroupError)
    assert f"there is no consumer group no-{topic}" in line
    assert group_offsets(broker, group) == {(topic, 0): 0}


@pytest.mark.full
def test_a_commit_on_a_topic_that_is_gone_has_no_lag(broker: Broker) -> None:
    topic = broker.create_topic(1)
    commit(broker, f"g-{topic}", topic, {0: 0})
    commit(broker, f"g-{topic}", broker.create_topic(1), {0: 0})
    assert run(broker, "topics", "--delete", topic).exit_code == 0
    told = answer(broker, "lag", f"g-{topic}")
    assert {row["topic"]: row["lag"] for row in told["partitions"]}.get(topic) is None
    assert told["lag"] == 0


def test_a_record_that_moves_a_terminal_is_spelled_out(broker: Broker, topic: str) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait(topic, TRICKS.encode(), key=TRICKS.encode())

    asyncio.run(send())
    spelled_out(run(broker, "consume", "--topic", topic, "--count", "1"))


async def test_names_that_move_a_terminal_are_spelled_out(broker: Broker, topic: str) -> None:
    group = f"group-{topic}\x1b[2J"
    options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap, "group_id": group, "client_id": TRICKS}
    async with AIOKafkaConsumer(topic, **options) as consumer:
        await consumer.seek_to_end()
        await consumer.commit()
        for command in (("groups",), ("lag", group)):
            spelled_out(await asyncio.to_thread(run, broker, *command))


def spelled_out(result: Result) -> None:
    assert result.exit_code == 0, result.exception or result.output
    assert r"\x1b" in result.output
    assert all(it.isprintable() or it in "\n\t" for it in result.output)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("seek", "g", "t", "--to", "soon"), "'soon' is none of earliest, latest, an offset, or a time"),
        (("seek", "g", "t", "--to", "-1"), "'-1' is none of earliest"),
        (("seek", "g", "t/x", "--to", "1"), "'t/x' is neither TOPIC nor TOPIC/PARTITION"),
        (("seek", "g", "--to", "1"), "Missing argument 'TOPIC[/PARTITION]...'"),
        (("seek", "g", "t"), "Missing option '--to'"),
    ],
)
def test_a_mistake_in_the_command_is_a_usage_error(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(headrace, ["kafka", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("arguments", [("groups",), ("lag", "g"), ("seek", "g", "t", "--to", "latest")])
def test_a_broker_that_does_not_answer_is_named_at_once(arguments: tuple[str, ...]) -> None:
    with socket.socket() as silent:  # bound, not listening: refuses
        silent.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        said = refused(CliRunner().invoke(headrace, ["kafka", *arguments, "--brokers", where]), BrokerError)
    assert f"no Kafka broker answers at {where}" in said


async def test_a_member_that_joins_meanwhile_is_found_by_the_broker(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = f"g-{topic}"

    async def nobody_yet(*_: object) -> ConsumerGroup:
        return ConsumerGroup(group, "Empty", ())

    monkeypatch.setattr(group_seek, "existing_group", nobody_yet)
    member = AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap, group_id=group)
    await member.start()
    try:
        await member.end_offsets(list(member.assignment()))  # it has joined
        with pytest.raises(GroupHasMembersError, match=f"group {group} has members: stop them first"):
            await group_seek.seek(BrokerAccess(broker.bootstrap), group, [(topic, None)], "earliest")
    finally:
        await member.stop()


@pytest.mark.full
async def test_a_broker_that_has_just_been_made_knows_no_group_yet() -> None:
    async with EmbeddedKafka() as kafka:
        assert await list_groups(BrokerAccess(kafka.bootstrap)) == []
        with pytest.raises(NoSuchGroupError):
            await read_lag(BrokerAccess(kafka.bootstrap), "g")


@pytest.mark.full
def test_groups_of_the_protocol_consumer_are_shown_and_kept_from_seeks(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], groupProtocol="consumer")
    group = f"group-{topic}"
    produce(broker, topic, 16)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 16, about=running)
        (found,) = [row for row in answer(broker, "groups") if row["name"] == group]
        assert (found["protocol"], found["epoch"], found["state"]) == ("consumer", 1, "Stable")
        (member,) = found["members"]
        assert (member["epoch"], len(member["partitions"])) == (1, 8)
        assert isinstance(
            run(broker, "seek", group, topic, "--to", "earliest").exception, GroupHasMembersError
        )
        assert {row["client"] for row in answer(broker, "lag", group)["partitions"]} == {member["client"]}
        assert running.stop() == 0
    (found,) = [row for row in answer(broker, "groups") if row["name"] == group]
    assert (found["protocol"], found["state"], found["members"]) == ("consumer", "Empty", [])
    assert after(broker, group, topic, "--to", "earliest") == dict.fromkeys(range(8), 0)
