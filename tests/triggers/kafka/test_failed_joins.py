"""FailedJoins that fail: counted in cycles, tried again after the wait, reported, survived."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import (
    GroupLoadInProgressError,
    InconsistentGroupProtocolError,
    KafkaError,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka.protocol.group import JoinGroupRequest, SyncGroupRequest
from broker import Broker

from headrace.triggers.kafka.client import fetches
from headrace.triggers.kafka.client.failed_joins import FailedJoins, watch_joins

ERROR = RebalanceInProgressError()


class Spent(list[str]):
    """One entry per spent cycle."""

    def __call__(self) -> None:
        self.append("spent")


def test_a_cycle_is_one_try_and_its_retries(caplog: pytest.LogCaptureFixture) -> None:
    spent = Spent()
    joins = FailedJoins("g", 2, 1.5, spent)
    problems = []
    for failures in range(1, 8):
        joins.failed(failures, ERROR)
        problems.append(joins.problem)
    assert len(spent) == 2
    assert problems[:2] == ["", ""]
    assert problems[2] == "joining group g failed 3 times in a row: [Error 27] RebalanceInProgressError"
    assert problems[6] == problems[5] == problems[2].replace("3", "6", 1)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "tried again every 1.5 s (rebalanceRetryBackoff)" in caplog.text


def test_without_retries_the_first_failure_is_reported() -> None:
    joins = FailedJoins("g", 0, 1, Spent())
    joins.failed(1, ERROR)
    assert joins.problem == "joining group g failed once: [Error 27] RebalanceInProgressError"


def test_a_join_ends_the_problem(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headrace")
    joins = FailedJoins("g", 0, 1, Spent())
    joins.joined()
    assert caplog.text == ""
    joins.failed(1, ERROR)
    joins.joined()
    assert joins.problem == ""
    assert "joined group g after it failed once" in caplog.text


# ---- against a broker


class Watched:
    """What `watch_joins` told."""

    def __init__(self) -> None:
        self.failures: list[tuple[int, str]] = []
        self.times: list[float] = []
        self.joined = asyncio.Event()
        self.has_failed_thrice = asyncio.Event()

    def on_failures(self, count: int, error: KafkaError) -> None:
        self.failures.append((count, str(error)))
        self.times.append(asyncio.get_running_loop().time())
        if count == 3:
            self.has_failed_thrice.set()


@asynccontextmanager
async def member(
    bootstrap: str, topic: str, backoff_seconds: float = 0.5, assignor: Any = RangePartitionAssignor
) -> AsyncIterator[tuple[AIOKafkaConsumer, Watched]]:
    """A consumer that is watched, and doesn't subscribe yet. Its group is named as the topic."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=topic,
        enable_auto_commit=False,
        rebalance_timeout_ms=5000,
        heartbeat_interval_ms=200,
        partition_assignment_strategy=(assignor,),
    )
    await consumer.start()
    try:
        watched = Watched()
        watch_joins(consumer, backoff_seconds, watched.on_failures, watched.joined.set)
        yield consumer, watched
    finally:
        await consumer.stop()


async def joined(watched: Watched) -> None:
    async with asyncio.timeout(120):
        await watched.joined.wait()


async def fetch_forever(consumer: AIOKafkaConsumer) -> None:
    while True:
        await fetches.fetch(consumer, fetches.PartitionsToFetch(), 0.1, 1)


async def test_a_join_that_succeeds_has_no_failure(broker: Broker, topic: str) -> None:
    """Though the broker wants a second request, with the member id that it gave."""
    async with member(broker.bootstrap, topic) as (consumer, watched):
        consumer.subscribe([topic])
        await joined(watched)
        assert watched.failures == []


def answer_with(consumer: AIOKafkaConsumer, kind: type[Any], error: type[KafkaError], times: float) -> None:
    """Have the next `times` requests of a kind answered with an error, unsent."""
    watch = consumer._coordinator._send_req.__self__
    send, asked = watch._send, 0

    async def answer(request: object) -> Any:
        nonlocal asked
        asked += isinstance(request, kind)
        if isinstance(request, kind) and asked <= times:
            return SimpleNamespace(error_code=error.errno)
        return await send(request)

    watch._send = answer


@pytest.mark.parametrize(
    ("kind", "error"),
    [(SyncGroupRequest, RebalanceInProgressError), (JoinGroupRequest, UnknownMemberIdError)],
)
async def test_a_join_that_another_rebalance_overtakes_is_repeated_at_once(
    broker: Broker, topic: str, kind: type[Any], error: type[KafkaError]
) -> None:
    async with member(broker.bootstrap, topic, 30) as (consumer, watched):
        answer_with(consumer, kind, error, 2)
        consumer.subscribe([topic])
        await joined(watched)
        assert [count for count, _ in watched.failures] == [1, 2]
        assert asyncio.get_running_loop().time() - watched.times[0] < 20  # not two waits
        assert len(consumer.assignment()) == 8


@pytest.mark.parametrize("error", [NotCoordinatorForGroupError, GroupLoadInProgressError])
async def test_a_coordinator_that_moves_or_loads_is_no_failure(
    broker: Broker, topic: str, error: type[KafkaError]
) -> None:
    """So it is with the first groups of a new broker."""
    async with member(broker.bootstrap, topic, 30) as (consumer, watched):
        answer_with(consumer, JoinGroupRequest, error, 3)
        consumer.subscribe([topic])
        await joined(watched)
        assert watched.failures == []


async def test_a_coordinator_that_goes_on_loading_is_one(broker: Broker, topic: str) -> None:
    async with member(broker.bootstrap, topic, 0.3) as (consumer, watched):
        answer_with(consumer, JoinGroupRequest, GroupLoadInProgressError, math.inf)
        consumer.subscribe([topic])
        async with asyncio.timeout(120):
            await watched.has_failed_thrice.wait()
        assert [count for count, _ in watched.failures] == [1, 2, 3]
        assert watched.times[2] - watched.times[0] > 0.5


async def test_another_strategy_in_the_group_is_raised_by_the_next_fetch(broker: Broker, topic: str) -> None:
    first = member(broker.bootstrap, topic)
    second = member(broker.bootstrap, topic, assignor=RoundRobinPartitionAssignor)
    async with first as (consumer, watched), second as (other, others):
        consumer.subscribe([topic])
        await joined(watched)
        other.subscribe([topic])
        with pytest.raises(InconsistentGroupProtocolError):
            await asyncio.wait_for(fetch_forever(other), 120)
        assert others.failures == []


async def test_a_wait_does_not_hold_up_the_stop(broker: Broker, topic: str) -> None:
    async with asyncio.timeout(120):
        async with member(broker.bootstrap, topic, 3600) as (consumer, _):
            watch = consumer._coordinator._send_req.__self__
            has_failed = asyncio.Event()

            async def fail(request: object) -> Any:
                has_failed.set()
                raise KafkaError("no")

            watch._send = fail
            consumer.subscribe([topic])
            await has_failed.wait()


async def test_a_full_group_is_joined_as_soon_as_there_is_room(narrow_broker: Broker) -> None:
    topic, bootstrap = narrow_broker.create_topic(8), narrow_broker.bootstrap
    async with member(bootstrap, topic) as (other, others):
        async with member(bootstrap, topic) as (consumer, watched):
            consumer.subscribe([topic])
            await joined(watched)
            other.subscribe([topic])
            async with asyncio.timeout(120):
                await others.has_failed_thrice.wait()
            assert [count for count, _ in others.failures] == [1, 2, 3]
            assert "code 81" in others.failures[0][1]
            other._coordinator.check_errors()  # nothing that would end the consumer
        await joined(others)
        assert len(other.assignment()) == 8
