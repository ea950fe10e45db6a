"""The frontier's way to Kafka: confirmed, refused in time, bounded."""

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from headrace.functions.run_tracking.frontier import publishing
from headrace.functions.run_tracking.frontier.publishing import ItemPublisher, PublishError


class OneWay:
    """A message as `context.produce` returns it."""

    def __init__(self) -> None:
        self._future: Future[None] = Future()

    def __await__(self) -> Any:
        return asyncio.wrap_future(self._future).__await__()

    def result(self) -> None:
        self._future.result(0)

    def end(self, error: Exception | None = None) -> None:
        if error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(error)


class Kafka:
    """Confirms when it is told to."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.open: list[OneWay] = []
        self.is_away = False

    def produce(self, topic: str, value: bytes, *, key: str, output: str) -> OneWay:
        self.values.append(value)
        one = OneWay()
        if self.is_away:
            self.open.append(one)
        else:
            one.end()
        return one

    def come_back(self, error: Exception | None = None) -> None:
        self.is_away = False
        while self.open:
            self.open.pop(0).end(error)


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


def publisher(kafka: Kafka, timeout_seconds: float = 60.0) -> ItemPublisher:
    return ItemPublisher(kafka.produce, "data-ingestion", "kafka", timeout_seconds)


async def test_it_returns_once_all_is_confirmed(kafka: Kafka) -> None:
    own = publisher(kafka)
    await own.publish("run", [b"1", b"2"])
    assert (kafka.values, own.oldest_seconds) == ([b"1", b"2"], 0)


async def test_what_is_not_confirmed_in_time_is_an_error_and_counts_as_waiting(kafka: Kafka) -> None:
    kafka.is_away = True
    own = publisher(kafka, 0.01)
    with pytest.raises(PublishError, match="send it again"):
        await own.publish("run", [b"1"])
    assert own.oldest_seconds > 0
    kafka.come_back()
    while own.oldest_seconds:
        await asyncio.sleep(0)
    await own.publish("run", [b"2"])


async def test_behind_what_has_waited_for_long_an_error_comes_at_once(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_STALE_SECONDS", 0)
    kafka.is_away = True
    own = publisher(kafka, 0.01)
    with pytest.raises(PublishError, match="in time"):
        await own.publish("run", [b"1"])
    with pytest.raises(PublishError, match="Kafka is away"):
        await own.publish("run", [b"2"])
    assert kafka.values == [b"1"]


async def test_no_more_is_on_its_way_than_there_is_room_for(kafka: Kafka) -> None:
    """`context.produce` would block, and the event loop of all clients with it."""
    kafka.is_away = True
    own = publisher(kafka, 0.05)
    large = b"x" * (publishing._MAX_UNCONFIRMED_BYTES // 4)
    with pytest.raises(PublishError):
        await own.publish("run", [large] * 9)
    assert len(kafka.values) == 4
    with pytest.raises(PublishError):
        await own.publish("other", [large])
    assert len(kafka.values) == 4


async def test_a_message_that_is_larger_than_the_room_goes_alone(kafka: Kafka) -> None:
    await publisher(kafka).publish("run", [b"x" * (2 * publishing._MAX_UNCONFIRMED_BYTES), b"1"])
    assert [len(it) for it in kafka.values] == [2 * publishing._MAX_UNCONFIRMED_BYTES, 1]


async def test_what_the_broker_refuses_is_an_error(kafka: Kafka) -> None:
    kafka.is_away = True
    publishes = asyncio.create_task(publisher(kafka).publish("run", [b"1"]))
    while not kafka.open:
        await asyncio.sleep(0)
    kafka.come_back(RuntimeError("no such topic"))
    with pytest.raises(PublishError, match="no such topic"):
        await publishes
