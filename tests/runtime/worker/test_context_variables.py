"""What a handler's call sets in a ContextVar, no other call sees; what init_context sets, all do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from worker_bench import bench, records

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.testing import run_handler

TENANT = ContextVar("TENANT", default="none")
COUNT = 4


class Seen:
    """What each call finds, before it sets something of its own."""

    def __init__(self) -> None:
        self.at_start: list[str] = []
        self.later: list[str] = []

    def enter(self, own: str) -> None:
        self.at_start.append(TENANT.get())
        TENANT.set(own)

    def leave(self) -> None:
        self.later.append(TENANT.get())


def _sync(seen: Seen) -> Callable[[Any, Any], Any]:
    def handler(_: Any, event: Any) -> None:
        seen.enter(event.body.decode())
        seen.leave()

    return handler


def _async(seen: Seen) -> Callable[[Any, Any], Any]:
    async def handler(_: Any, event: Any) -> None:
        seen.enter(event.body.decode())
        await asyncio.sleep(0)
        seen.leave()

    return handler


def _sync_with_a_coroutine(seen: Seen) -> Callable[[Any, Any], Any]:
    rest = _async(seen)

    def handler(context: Any, event: Any) -> Any:
        return rest(context, event)

    return handler


def _generator(seen: Seen) -> Callable[[Any, Any], Any]:
    def handler(_: Any, event: Any) -> Iterator[str]:
        seen.enter(event.body.decode())
        yield "part"
        seen.leave()

    return handler


def _async_generator(seen: Seen) -> Callable[[Any, Any], Any]:
    async def handler(_: Any, event: Any) -> AsyncIterator[str]:
        seen.enter(event.body.decode())
        yield "part"
        await asyncio.sleep(0)
        seen.leave()

    return handler


def _that_raises(seen: Seen) -> Callable[[Any, Any], Any]:
    def handler(_: Any, event: Any) -> None:
        seen.enter(event.body.decode())
        seen.leave()
        raise ValueError(event.body)

    return handler


KINDS = [_sync, _async, _sync_with_a_coroutine, _generator, _async_generator, _that_raises]


def _bodies() -> list[bytes]:
    return [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_does_not_see_what_another_has_set(kind: Callable[[Seen], Any]) -> None:
    seen = Seen()
    run_handler(kind(seen), _bodies())
    assert seen.at_start == ["none"] * COUNT
    assert seen.later == ["0", "1", "2", "3"]


@pytest.mark.parametrize("is_async", [False, True])
def test_all_calls_see_what_init_context_has_set(is_async: bool) -> None:
    seen = Seen()

    def init_context(_: Any) -> None:
        TENANT.set("all")

    async def later(context: Any) -> None:
        init_context(context)

    run_handler(_async(seen), _bodies(), init_context=later if is_async else init_context)
    assert seen.at_start == ["all"] * COUNT
    assert TENANT.get() == "none"


class Array:
    """As those of numpy: whether two are equal is no question."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_variable_has_need_not_be_comparable(is_async: bool) -> None:
    array: ContextVar[Array] = ContextVar("array")
    first, found = Array(), []

    def handler(_: Any, _event: Any) -> None:
        found.append(array.get() is first)
        array.set(Array())

    async def later(context: Any, event: Any) -> None:
        handler(context, event)

    run = run_handler(later if is_async else handler, _bodies(), init_context=lambda _: array.set(first))
    assert run.failures == []
    assert found == [True] * COUNT


@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_factory_that_knows_no_contexts_will_do(is_async: bool) -> None:
    seen = Seen()

    def init_context(_: Any) -> Any:
        loop = asyncio.get_event_loop()
        loop.set_task_factory(lambda loop, rest: asyncio.Task(rest, loop=loop))
        return asyncio.sleep(0) if is_async else None

    run = run_handler(_async(seen), _bodies(), init_context=init_context)
    assert run.failures == []
    assert seen.at_start == ["none"] * COUNT


def test_a_batch_does_not_see_what_the_one_before_has_set() -> None:
    seen = Seen()

    def handler(_: Any, events: list[Any]) -> None:
        seen.enter(events[0].body.decode())
        raise ValueError("once more")

    run_handler(handler, _bodies(), is_batch=True, max_attempts=3)
    assert seen.at_start == ["none"] * 3


def test_a_task_has_what_its_call_has_set() -> None:
    seen: list[str] = []

    async def later() -> None:
        await asyncio.sleep(0)
        seen.append(TENANT.get())

    async def handler(_: Any, event: Any) -> None:
        TENANT.set(event.body.decode())
        await asyncio.create_task(later())

    run_handler(handler, _bodies())
    assert seen == ["0", "1", "2", "3"]


@pytest.mark.parametrize("most_at_once", [1, 8])
async def test_in_a_worker_calls_are_apart_and_can_be_cancelled(tmp_path: Path, most_at_once: int) -> None:
    handler = """
        from contextvars import ContextVar
        TENANT = ContextVar("TENANT", default="none")

        async def handler(context, event):
            write(TENANT.get())
            TENANT.set(event.body.decode())
            try:
                async with asyncio.timeout(0):
                    await asyncio.sleep(60)
            except TimeoutError:
                write("over")
    """
    policy = DeliveryPolicy(max_concurrency=most_at_once)
    async with bench(tmp_path, handler, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        b.expect_quick_handlers()
        b.feed(p, records(0, COUNT))
        await b.settled(p, COUNT)
        assert b.lines() == ["none", "over"] * COUNT
