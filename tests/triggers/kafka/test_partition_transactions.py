"""Messages and a commit in one transaction, on a real broker: all or nothing, once, by one owner."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata
from broker import Broker
from hypothesis import given
from hypothesis import strategies as st
from processes import freeze
from transactional import read_committed

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.producer import discard, start_producer
from headrace.runtime.kafka.topics import create_topics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.offset_store import TextTooLongError
from headrace.runtime.wire.produce import WAITING, DeliveryReport, Message, Outgoing
from headrace.triggers.kafka.client.commits import Commit, fetch_commits
from headrace.triggers.kafka.client.internals import is_member
from headrace.triggers.kafka.group.transactional_offsets import TransactionalOffsets
from headrace.triggers.kafka.produce.cluster import OutputCluster
from headrace.triggers.kafka.produce.partition_producer import transactional_id
from headrace.triggers.kafka.settings.model import KafkaSettings


class Said:
    """Messages, and what became of each."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.told: list[tuple[str, DeliveryReport]] = []

    def __call__(self, *values: str, topic: str = "") -> list[Outgoing]:
        return [
            (Message(topic or self._topic, it.encode()), partial(self._fail_or_wait, it)) for it in values
        ]

    def _fail_or_wait(self, value: str, written: DeliveryReport) -> None:
        self.told.append((value, written))

    @property
    def written(self) -> list[str]:
        return [value for value, it in self.told if not it.failure]


@asynccontextmanager
async def owner(
    broker: Broker, topic: str, group: str = ""
) -> AsyncIterator[tuple[TransactionalOffsets, AIOKafkaConsumer]]:
    """A member of the group, or of `g-TOPIC`, and what it commits by."""
    group = group or f"g-{topic}"
    settings = KafkaSettings.model_construct(
        brokers=(broker.bootstrap,), consumer_group=group, topics=(topic,), exactly_once=True
    )
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
    )
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    async with asyncio.timeout(120), consumer:
        await admin.start()
        cluster = OutputCluster(settings.access)
        transactions = TransactionalOffsets((consumer, admin), settings, cluster, "test")
        try:
            yield transactions, consumer
        finally:
            await transactions.close()
            await admin.close()


async def committed(transactions: TransactionalOffsets, key: PartitionKey) -> Commit | None:
    group = transactions._settings.consumer_group
    return (await fetch_commits(transactions._admin, group, [TopicPartition(*key)])).get(TopicPartition(*key))


async def until_committed(transactions: TransactionalOffsets, key: PartitionKey, expected: Commit) -> None:
    """A broker answers the end of a transaction before it has written that everywhere."""
    while await committed(transactions, key) != expected:
        await asyncio.sleep(0.01)


async def write(
    transactions: TransactionalOffsets,
    key: PartitionKey,
    offset: int,
    text: str,
    messages: Sequence[Outgoing],
) -> str:
    """Why it is refused."""
    refused = await transactions.write({key: (offset, text)}, {key: messages} if messages else {})
    return refused.get(key, "")


async def test_messages_and_commit_are_there_together(broker: Broker, topic: str) -> None:
    out, key = broker.create_topic(1), PartitionKey(topic, 0)
    say = Said(out)
    async with owner(broker, topic) as (transactions, _):
        await transactions.begin([key])
        assert not await write(transactions, key, 3, "text of 3", say("a", "b"))
        await until_committed(transactions, key, Commit(3, "text of 3"))
        assert [it.offset for _, it in say.told] == [0, 1]
        assert not await write(transactions, key, 4, "text of 4", [])
        await until_committed(transactions, key, Commit(4, "text of 4"))
        assert not await write(transactions, key, 5, "", say("c"))
    assert await asyncio.to_thread(read_committed, broker, out) == [b"a", b"b", b"c"]


async def test_a_message_that_cannot_be_written_takes_nothing_with_it(broker: Broker, topic: str) -> None:
    out, key, other = broker.create_topic(1), PartitionKey(topic, 0), PartitionKey(topic, 1)
    say = Said(out)
    async with owner(broker, topic) as (transactions, _):
        await transactions.begin([key, other])
        large, fine = say("x" * 2_000_000), say("fine")
        refused = await transactions.write(
            {key: (3, ""), other: (4, "")}, {key: [*fine, *large], other: say("b")}
        )
        assert list(refused) == [key]
        assert "can't be written" in refused[key]
        ((_, written),) = [it for it in say.told if it[1].failure]
        assert "takes no message of" in written.failure
        assert await committed(transactions, key) is None
        missing = await write(transactions, key, 3, "", say("c", topic="nowhere-at-all"))
        assert "there is no topic nowhere-at-all" in missing
        assert say.told[-1][1].partition == WAITING
        assert not await write(transactions, key, 3, "", fine)
    assert await asyncio.to_thread(read_committed, broker, out) == [b"b", b"fine"]


async def test_what_is_refused_behind_a_message_that_cannot_be_written_is_not_to_blame(
    broker: Broker, topic: str
) -> None:
    """The client has counted the sequence number of what was refused: the broker takes none after it."""
    out, other, key = broker.create_topic(1), broker.create_topic(2), PartitionKey(topic, 0)
    say, elsewhere = Said(out), Said(other)
    async with owner(broker, topic) as (transactions, _):
        await transactions.begin([key])
        before, large, behind = say("before"), say("x" * 1_300_000), say(*map(str, range(40)))
        beside = elsewhere(*map(str, range(40)))
        messages = [*before, *beside, *large, *behind]
        assert "can't be written" in await write(transactions, key, 3, "", messages)
        ((value, written),) = say.told
        assert value.startswith("xx")
        assert "takes no message of" in written.failure
        assert not elsewhere.told
        assert not await write(transactions, key, 3, "", [*before, *beside, *behind])
    assert len(await asyncio.to_thread(read_committed, broker, out)) == 41
    assert len(await asyncio.to_thread(read_committed, broker, other)) == 40


@pytest.mark.full
async def test_a_broker_that_is_away_fails_no_message() -> None:
    """It says nothing of its topics, which isn't that there are none."""
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({"t": 1})
        key, say = PartitionKey("t", 0), Said("out")
        messages = say("a")
        async with owner(Broker(kafka.bootstrap, "embedded"), "t") as (transactions, _):
            await transactions.begin([key])
            await kafka.create_topics({"out": 1})  # of which the producer doesn't know yet
            assert kafka.pid is not None
            freeze(kafka.pid)
            try:
                assert "isn't known" in await write(transactions, key, 3, "", messages)
            finally:
                os.kill(kafka.pid, signal.SIGCONT)
            assert say.told == []
            while await write(transactions, key, 3, "", messages):
                await asyncio.sleep(0.01)
        assert say.written == ["a"]


async def test_whoever_begins_later_is_the_owner(broker: Broker, topic: str) -> None:
    out, key = broker.create_topic(1), PartitionKey(topic, 0)
    say = Said(out)
    async with owner(broker, topic) as (first, consumer):
        await first.begin([key])
        cluster = OutputCluster(first._settings.access)
        second = TransactionalOffsets((consumer, first._admin), first._settings, cluster, "other")
        await second.begin([key])
        assert await write(first, key, 3, "", say("of the old owner"))
        assert not await write(second, key, 2, "", say("a"))
        await until_committed(first, key, Commit(2, ""))
        await second.close()
    assert await asyncio.to_thread(read_committed, broker, out) == [b"a"]
    assert say.written == ["a"]


async def gone() -> bool:
    """The answer to a heartbeat of who was thrown out."""
    return False


async def test_who_is_no_member_makes_no_producer_of_its_own(broker: Broker, topic: str) -> None:
    out, key = broker.create_topic(1), PartitionKey(topic, 0)
    say = Said(out)
    async with owner(broker, topic) as (transactions, consumer):
        await transactions.begin([key])
        assert await is_member(consumer)
        transactions._producers[key].is_over = True
        consumer._coordinator._do_heartbeat = gone
        assert not await is_member(consumer)
        assert "as to a member" in await write(transactions, key, 3, "", say("never"))
    assert await asyncio.to_thread(read_committed, broker, out) == []


@pytest.mark.parametrize("stands", [True, False])
async def test_an_end_that_is_not_known_is_asked_for(broker: Broker, topic: str, *, stands: bool) -> None:
    out, key = broker.create_topic(1), PartitionKey(topic, 0)
    say = Said(out)
    async with owner(broker, topic) as (transactions, _):
        await transactions.begin([key])
        client: Any = transactions._producers[key]._client
        commit = client.commit_transaction

        async def lost() -> None:
            if stands:
                await commit()
            raise KafkaError("nobody has heard how it ended")

        client.commit_transaction = lost
        messages = say("a")
        assert "nobody has heard" in await write(transactions, key, 3, "text", messages)
        assert say.told == []
        assert "only just ended" in await write(transactions, key, 4, "later", [*messages, *say("b")])
        assert say.written == (["a"] if stands else [])
        assert await committed(transactions, key) == (Commit(3, "text") if stands else None)
        left = [] if stands else messages
        assert not await write(transactions, key, 4, "later", [*left, *say("b")])
    assert await asyncio.to_thread(read_committed, broker, out) == [b"a", b"b"]


async def test_a_transaction_outlives_who_waits_for_it(broker: Broker, topic: str) -> None:
    out, key = broker.create_topic(1), PartitionKey(topic, 0)
    say, may_go = Said(out), asyncio.Event()
    async with owner(broker, topic) as (transactions, _):
        await transactions.begin([key])
        client: Any = transactions._producers[key]._client
        commit = client.commit_transaction

        async def slow() -> None:
            await may_go.wait()
            await commit()

        client.commit_transaction = slow
        messages = say("a")
        waiting = asyncio.create_task(write(transactions, key, 3, "", messages))
        while not transactions._running:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        again = asyncio.create_task(write(transactions, key, 4, "", [*messages, *say("b")]))
        may_go.set()
        assert "only just ended" in await again
        assert say.written == ["a"]
        assert not await write(transactions, key, 4, "", say("b"))
    assert await asyncio.to_thread(read_committed, broker, out) == [b"a", b"b"]


async def test_text_that_is_too_long_is_said_to_be(broker: Broker, topic: str) -> None:
    out, key = broker.create_topic(1), PartitionKey(topic, 0)
    say = Said(out)
    async with owner(broker, topic) as (transactions, _):
        await transactions.begin([key])
        messages = say("a")
        with pytest.raises(TextTooLongError):
            await write(transactions, key, 3, "x" * 5000, messages)
        assert say.told == []
        assert not await write(transactions, key, 3, "x" * 4000, messages)
        assert say.written == ["a"]
    assert await asyncio.to_thread(read_committed, broker, out) == [b"a"]


async def test_groups_and_topics_whose_names_run_into_each_other_fence_nobody(
    broker: Broker, topic: str
) -> None:
    out, other = broker.create_topic(1), f"eu-{topic}"
    await create_topics(BrokerAccess(broker.bootstrap), {other: 1})
    say, mine, theirs = Said(out), PartitionKey(other, 0), PartitionKey(topic, 0)
    async with owner(broker, other, "bill") as (bill, _), owner(broker, topic, "bill-eu") as (bill_eu, _):
        await bill.begin([mine])
        await bill_eu.begin([theirs])
        assert not await write(bill, mine, 1, "", say("a"))
        assert not await write(bill_eu, theirs, 1, "", say("b"))
        assert not await write(bill, mine, 2, "", say("c"))
    assert await asyncio.to_thread(read_committed, broker, out) == [b"a", b"b", b"c"]


async def test_what_an_older_release_has_begun_ends_and_it_is_fenced(broker: Broker, topic: str) -> None:
    """In a rolling upgrade a replica of it may be frozen amid a transaction of that partition."""
    out, key, group = broker.create_topic(1), PartitionKey(topic, 0), f"g-{topic}"
    older = await start_producer(BrokerAccess(broker.bootstrap), "older", f"{group}-{topic}-0")
    try:
        await older.begin_transaction()
        await older.send_and_wait(out, b"of the old owner")
        await older.send_offsets_to_transaction({TopicPartition(*key): OffsetAndMetadata(9, "")}, group)
        async with owner(broker, topic) as (transactions, _):
            await transactions.begin([key])
            assert await committed(transactions, key) is None
            with pytest.raises(KafkaError):
                await older.commit_transaction()
            assert await committed(transactions, key) is None
    finally:
        await discard(older)
    assert await asyncio.to_thread(read_committed, broker, out) == []


@given(st.text(), st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 10**6))
def test_an_id_says_of_what_it_is(group: str, topic: str, partition: int) -> None:
    """So no other group, topic and partition has it; nor had it in older releases, which wrote no slash."""
    found = transactional_id(group, PartitionKey(topic, partition))
    rest, said_topic, said_partition = found.rsplit("/", 2)
    assert (said_topic, int(said_partition)) == (topic, partition)
    assert rest.removesuffix("-headrace") == group
    assert found.startswith(f"{group}-")  # what rules of brokers allow by prefix
