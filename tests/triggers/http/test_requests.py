"""Requests between a server and a dispatcher, both of them played: who is begun with, and who is refused."""

import asyncio
from typing import Any

import pytest

from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.wire.reply import Reply
from headrace.triggers.http import requests as requests_module
from headrace.triggers.http.requests import BUSY, DIED, STOPPING, HttpAnswer, RequestLane, Requests
from headrace.triggers.http.responses import AnswerStream, CutOffError

HEAD = b"GET\n/\n"


class Dispatch:
    """It has one worker, and hands out nothing by itself."""

    seats = 1

    def __init__(self) -> None:
        self.lanes: list[RequestLane] = []

    @property
    def waiting(self) -> list[RequestLane]:
        """Those that it may hand out."""
        return [lane for lane in self.lanes if lane.is_deliverable]

    def submit(self, lane: RequestLane) -> None:
        self.lanes.append(lane)

    def dispatch(self) -> None:
        """A test does it."""

    def recall(self, lane: RequestLane) -> None:
        """Nothing is at its worker."""


def made(wait_seconds: float = 60) -> tuple[Requests, Dispatch]:
    dispatch: Any = Dispatch()
    metrics = TriggerMetrics(MetricRegistry(), "", "f", "http", "web")
    return Requests("web", dispatch, metrics, wait_seconds), dispatch


def asked(requests: Requests) -> "asyncio.Task[HttpAnswer]":
    return asyncio.create_task(requests.ask(HEAD, b""))


async def test_who_finds_no_worker_in_time_is_refused_and_never_begun_with() -> None:
    requests, dispatch = made(wait_seconds=0.01)
    async with asyncio.timeout(5):
        assert (await asked(requests)).reply is BUSY
    assert not dispatch.waiting
    assert requests.open_count == 0


async def test_a_client_that_has_gone_is_not_begun_with() -> None:
    requests, dispatch = made()
    request = asked(requests)
    await asyncio.sleep(0)
    assert len(dispatch.waiting) == 1
    request.cancel()
    await asyncio.wait([request])
    assert not dispatch.waiting
    assert requests.open_count == 0


async def test_of_those_that_come_while_as_many_wait_as_may_each_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests_module, "MOST_WAITING", 2)
    requests, _ = made()
    waiting = [asked(requests) for _ in range(3)]  # one of them for the worker
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert (await requests.ask(HEAD, b"")).reply is BUSY
        await requests.stop(0)
        assert [answer.reply for answer in await asyncio.gather(*waiting)] == [STOPPING] * 3


async def test_what_its_worker_died_in_is_answered_and_not_handed_out_again() -> None:
    requests, dispatch = made()
    request = asked(requests)
    await asyncio.sleep(0)
    (lane,) = dispatch.lanes
    records = lane.take(1, 1 << 20)
    lane.on_cut_short("died")
    assert (await request).reply is DIED
    lane.on_returned(records)
    assert not dispatch.waiting
    assert requests.open_count == 0


async def test_what_comes_back_unbegun_is_handed_out_again_for_who_still_waits() -> None:
    requests, dispatch = made()
    request = asked(requests)
    await asyncio.sleep(0)
    (lane,) = dispatch.lanes
    lane.on_returned(lane.take(1, 1 << 20))
    assert dispatch.waiting == [lane]
    (record,) = lane.take(1, 1 << 20)
    lane.on_replied(record, reply := Reply(200, "text/plain", (), b"hello"))
    lane.on_settled([record])
    assert (await request).reply is reply


@pytest.mark.parametrize("is_whole", [True, False])
async def test_an_answer_in_parts_is_whole_only_where_its_last_part_has_come(*, is_whole: bool) -> None:
    stream = AnswerStream(lambda *_: None)
    stream.put(b"one", is_last=False)
    stream.put(b"two", is_last=is_whole)
    stream.end()
    parts = []
    try:
        async for part in stream.parts():
            parts.append(part)  # noqa: PERF401  # those before the error count
    except CutOffError:
        assert not is_whole
    else:
        assert is_whole
    assert parts == [b"one", b"two"]
