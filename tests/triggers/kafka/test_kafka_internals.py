"""One test per name that we use of aiokafka's insides: an upgrade that changes one fails here, loudly."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.metadata import MetadataRequest_v5
from broker import Broker
from worker_bench import until

from headrace.runtime.wire.lease import now_ns
from headrace.triggers.kafka.client import fetch_requests, fetches, internals, topics, undecoded_fetch
from headrace.triggers.kafka.client.commits import tell_partitions_apart
from headrace.triggers.kafka.client.fetch_budget import FetchBudget
from headrace.triggers.kafka.client.topics import describe_topics


@asynccontextmanager
async def assigned_consumer(broker: Broker, topic: str) -> AsyncIterator[AIOKafkaConsumer]:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for partition in (0, 1):
            for number in range(10):
                await producer.send_and_wait(topic, str(number).encode(), partition=partition)
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=f"g-{topic}", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def something(consumer: AIOKafkaConsumer, wanted: fetches.PartitionsToFetch) -> fetches.Records:
    """Fetch until there is something."""
    async with asyncio.timeout(120):
        while not (fetched := await fetches.fetch(consumer, wanted, 5, max_records=100)):
            pass
    return fetched


async def test_a_fetch_gives_only_what_is_wanted(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        wanted = fetches.PartitionsToFetch({TopicPartition(topic, 1)})
        fetched = await something(consumer, wanted)
        assert {tp.partition: len(records) for tp, records in fetched.items()} == {1: 10}


async def test_nothing_wanted_is_nothing_fetched(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        assert await fetches.fetch(consumer, fetches.PartitionsToFetch(), 0.5, max_records=100) == {}


async def test_waking_a_fetch_makes_it_look_at_what_is_wanted_now(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        internals.tune(consumer, retry_seconds=1)
        wanted = fetches.PartitionsToFetch({TopicPartition(topic, 0)})
        await something(consumer, wanted)  # now partition 1 lies unread
        waiting = asyncio.create_task(fetches.fetch(consumer, wanted, 600, max_records=100))
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()
        wanted.add(TopicPartition(topic, 1))
        fetches.wake(consumer)
        assert await asyncio.wait_for(waiting, 120) == {}
        assert [tp.partition for tp in await fetches.fetch(consumer, wanted, 0, max_records=100)] == [1]


async def test_a_partition_that_lies_unread_does_not_hold_back_its_node(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        internals.tune(consumer, retry_seconds=3)
        assert (consumer._fetcher._prefetch_backoff, consumer._fetcher._retry_backoff) == (0.002, 3)


async def test_a_request_that_ends_while_something_is_read_wakes_the_fetcher(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        internals.tune(consumer, retry_seconds=1)
        fetcher = consumer._fetcher
        await until(lambda: len(fetcher._records) == 2)
        fetcher._fetch_task.cancel()
        ended, runs = asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(asyncio.sleep(600))
        await ended
        for task, is_woken in ((runs, False), (ended, True)):
            monkeypatch.setattr(fetcher, "_in_flight", {0})
            monkeypatch.setattr(fetcher, "_pending_tasks", {task})
            fetcher._wait_consume_future = asyncio.get_running_loop().create_future()
            fetcher._get_actions_per_node(consumer._subscription.subscription.assignment)
            assert not fetcher._wait_consume_future.done(), "its own end is still to be heard of"
            await asyncio.sleep(0)
            assert fetcher._wait_consume_future.done() is is_woken
        runs.cancel()
        monkeypatch.undo()


async def test_metadata_is_not_asked_for_without_a_pause_where_a_partition_has_no_leader(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        internals.tune(consumer, retry_seconds=1)
        asked: list[float] = []
        ask = consumer._client.force_metadata_update

        def count() -> object:
            asked.append(time.monotonic())
            return ask()

        monkeypatch.setattr(consumer._client, "force_metadata_update", count)
        monkeypatch.setattr(consumer._client.cluster, "leader_for_partition", lambda tp: -1)
        began = time.monotonic()
        while len(asked) < 2:
            await asyncio.sleep(0.05)
        assert time.monotonic() - began > 0.9


async def test_requests_wait_for_what_is_held_and_are_sent_when_it_is_let_go(
    broker: Broker, topic: str
) -> None:
    budget = FetchBudget(1, 1 << 20, range(8))
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    fetch_requests.limit(consumer, budget)
    assert undecoded_fetch.fetch_counted(consumer, budget.hold)
    consumer.assign([TopicPartition(topic, partition) for partition in range(8)])
    everything = fetches.PartitionsToFetch(consumer.assignment())
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for partition in range(4):
            await producer.send_and_wait(topic, b"x", partition=partition)
    try:
        async with asyncio.timeout(120):
            found = 0
            while found < 4:
                await until(lambda: consumer._fetcher._records)
                assert len(consumer._fetcher._records) == 1
                assert budget.used_bytes
                found += len(await something(consumer, everything))
    finally:
        await consumer.stop()


async def test_a_request_that_leaves_unread_data_out_waits_for_a_part_of_the_time_that_they_are_here(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        internals.tune(consumer, retry_seconds=1)
        fetch_requests.limit(consumer, FetchBudget(1 << 30, 1 << 20, consumer.assignment()))
        fetcher = consumer._fetcher
        await until(lambda: len(fetcher._records) == 2)
        fetcher._fetch_task.cancel()  # no more by itself
        came_at = max(found._created for found in fetcher._records.values())

        def waits_ms(seconds: float) -> list[int]:
            """Of the requests that it would make so long after they came."""
            monkeypatch.setattr(time, "monotonic", lambda: came_at + seconds)
            monkeypatch.setattr(fetcher, "_in_flight", set())
            made, *_ = fetcher._get_actions_per_node(consumer._subscription.subscription.assignment)
            monkeypatch.undo()
            return [request._max_wait_ms for _, request in made]

        assert [waits_ms(seconds) for seconds in (0, 0.01, 0.202, 60)] == [[], [3], [51], [500]]
        fetcher._records.clear()
        assert waits_ms(0) == [500], "nothing is left out"


async def test_the_generation_is_below_zero_without_a_membership(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        assert internals.generation(consumer) > 0
        consumer._coordinator.reset_generation()
        assert internals.generation(consumer) < 0


@pytest.mark.parametrize(
    "name",
    [
        "_records",
        "_create_fetch_waiter",
        "_fetch_waiters",
        "_notify",
        "_wait_consume_future",
        "_in_flight",
        "_pending_tasks",
    ],
)
async def test_the_fetcher_has_what_we_call(broker: Broker, topic: str, name: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        assert hasattr(consumer._fetcher, name)


@pytest.mark.parametrize(
    "name", ["_send_req", "_do_rejoin_group", "_do_commit_offsets", "_closing", "_performed_join_prepare"]
)
async def test_the_coordinator_has_what_we_stand_around_or_read(
    broker: Broker, topic: str, name: str
) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        assert hasattr(consumer._coordinator, name)


async def test_a_subscription_says_that_it_is_not_over(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        subscription = consumer._subscription.subscription
        assert (subscription.active, subscription.unsubscribe_future.done()) == (True, False)


async def test_a_commit_that_nobody_waits_for_any_more_fails_silently(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        tell_partitions_apart(consumer)
        await something(consumer, fetches.PartitionsToFetch({TopicPartition(topic, 0)}))
        send, is_asked, may_answer = consumer._coordinator._send_req, asyncio.Event(), asyncio.Event()

        async def answer(request: object) -> object:
            is_asked.set()
            await may_answer.wait()
            return await send(request)

        consumer._coordinator._send_req = answer
        consumer._coordinator.generation += 1
        commit = asyncio.create_task(consumer.commit({TopicPartition(topic, 0): (1, "")}))
        await is_asked.wait()
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        may_answer.set()
        while consumer._coordinator.generation > 0:  # it has failed
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        gc.collect()
        assert "never retrieved" not in caplog.text


async def test_a_session_is_renewed_from_the_time_at_which_the_question_was_sent(
    broker: Broker, topic: str
) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        coordinator = consumer._coordinator
        send, sent = coordinator._send_req, []

        async def slowly(request: object) -> object:
            sent.append(now_ns())
            response = await send(request)
            await asyncio.sleep(0.1)
            return response

        renewed: list[int] = []
        coordinator._send_req = slowly
        internals.watch_session(consumer, lambda sent_ns, _: renewed.append(sent_ns))
        before = now_ns()
        assert await coordinator._do_heartbeat()
        assert before <= renewed[-1] <= sent[-1]


async def test_a_refused_heartbeat_renews_nothing(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        renewed: list[int] = []
        internals.watch_session(consumer, lambda sent_ns, _: renewed.append(sent_ns))
        consumer._coordinator.generation += 1
        assert not await consumer._coordinator._do_heartbeat()
        assert not renewed


async def test_topics_are_described_with_their_ids_and_none_is_made_by_asking(broker: Broker) -> None:
    one, other, missing = broker.create_topic(3), broker.create_topic(1), "never-made"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        found = await describe_topics(admin, [one, other, missing])
        assert await describe_topics(admin, []) == {}
        assert missing not in await admin.list_topics()
    finally:
        await admin.close()
    assert {name: (topic.partition_count, *topic.leaderless) for name, topic in found.items()} == {
        one: (3,),
        other: (1,),
    }
    assert found[one].id != found[other].id


async def test_a_broker_without_topic_ids_is_asked_for_what_it_knows(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.create_topic(3)
    monkeypatch.setattr(topics._TopicsRequest, "_CLASSES", (MetadataRequest_v5,))
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        (found,) = (await describe_topics(admin, [topic])).values()
    finally:
        await admin.close()
    assert found.partition_count == 3
    assert len(found.id) == 6


async def test_a_heartbeat_says_whether_this_is_a_member(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        await until(consumer.assignment)
        assert await internals.is_member(consumer)
        consumer._coordinator.member_id = "somebody else"
        assert not await internals.is_member(consumer)
        assert not await internals.is_member(consumer), "its generation is gone by that"
