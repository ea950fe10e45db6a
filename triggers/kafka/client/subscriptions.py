"""Topics that a consumer reads, changed while it runs. Reaches into aiokafka, pinned to 0.14."""

from collections.abc import Collection
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.subscription_state import TopicPartitionState


def resubscribe(consumer: AIOKafkaConsumer, names: Collection[str]) -> bool:
    """Read these topics from now on, by a rebalance that begins now where one is needed.

    Return False amid a join, with nothing done: its answer may still name the topics of before, and would end
    the consumer. `consumer.subscribe` would drop the assignment at once, under handlers that run and with
    commits to make.
    """
    coordinator, subscription = consumer._coordinator, consumer._subscription.subscription  # noqa: SLF001
    # The leader has shared out the topics of before: its answer would be for topics that are not read any
    # more.
    if coordinator._performed_join_prepare:  # noqa: SLF001
        return False
    client, before, now = consumer._client, subscription.topics, frozenset(names)  # noqa: SLF001
    subscription._topics = now  # noqa: SLF001
    client.set_topics(client._topics - before | now)  # noqa: SLF001  # the group's leader looks at others' too
    # What has gone is no longer assigned to anybody once the leader has seen it. Is it so here?
    if now - before or any(tp.topic not in now for tp in consumer.assignment()):
        coordinator.request_rejoin()
    return True


def hurry_topics(consumer: AIOKafkaConsumer) -> None:
    """Have the consumer ask about changed topics at once, even amid an answer about those of before.

    By itself it asks then when its metadata is old again, a minute later by default, and whoever waits for an
    answer (a rebalance, the search for a coordinator) waits for as long.
    """
    client: Any = consumer._client  # noqa: SLF001
    set_topics = client.set_topics

    def hurried(topics: Collection[str]) -> Any:
        told = set_topics(topics)
        is_awaited, waiter = client._md_update_fut is not None, client._md_update_waiter  # noqa: SLF001
        if is_awaited and not waiter.done():
            waiter.set_result(None)
        return told

    client.set_topics = hurried


# ---- partitions that a consumer is given one by one


def read_by_hand(consumer: AIOKafkaConsumer) -> None:
    """Let `place` and `drop` say what is fetched. Begins with nothing."""
    consumer.assign([])


def read_topics(consumer: AIOKafkaConsumer, names: Collection[str]) -> None:
    """Have `subscription()` name these topics, and know their leaders, whatever of them is placed.

    By itself it names the topics of what it fetches.
    """
    consumer._subscription.subscription._topics = frozenset(names)  # noqa: SLF001
    consumer._client.set_topics(names)  # noqa: SLF001


def place(consumer: AIOKafkaConsumer, tp: TopicPartition, offset: int, *, is_paused: bool) -> None:
    """Fetch a partition from an offset on, beside what is fetched.

    `consumer.assign` would replace the assignment: what was fetched of all other partitions, and their
    requests under way, would be thrown away.
    """
    assignment: Any = consumer._subscription.subscription.assignment  # noqa: SLF001
    if tp not in assignment.tps:
        state = assignment._tp_state[tp] = TopicPartitionState(assignment)  # noqa: SLF001
        state.seek(offset)  # first: without a position the fetcher would ask for one
        if is_paused:
            state.pause()
        assignment._topic_partitions |= {tp}  # noqa: SLF001
        fetcher = consumer._fetcher  # noqa: SLF001
        fetcher._notify(fetcher._wait_consume_future)  # noqa: SLF001
    consumer.seek(tp, offset)


def drop(consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]) -> None:
    """Fetch these no more. What a request under way brings of them is thrown away."""
    assignment: Any = consumer._subscription.subscription.assignment  # noqa: SLF001
    # In place: a new assignment object would throw away what was fetched of all others.
    assignment._topic_partitions -= frozenset(partitions)  # noqa: SLF001
    for tp in partitions:
        if (state := assignment.state_value(tp)) is not None:
            state.resume()
            state._position = None  # noqa: SLF001  # the answer is compared with it
        consumer._fetcher._records.pop(tp, None)  # noqa: SLF001
