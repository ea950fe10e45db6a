"""What a task group fails with."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Never

import pytest

from headrace.runtime.errors import BrokerError, HeadraceError, UsageError
from headrace.runtime.tasks import task_group


async def fail(error: Exception) -> Never:
    raise error


async def run_group(*works: Coroutine[Any, Any, Any], inside: Coroutine[Any, Any, Any] | None = None) -> None:
    """`works` as tasks of a group that expects HeadraceError and OSError; `inside` in its own block."""
    async with task_group(HeadraceError, OSError) as tasks:
        for work in works:
            tasks.create_task(work)
        if inside is not None:
            await inside


@pytest.mark.parametrize("error", [UsageError("no Java"), TimeoutError("too late")])
async def test_one_expected_error_arrives_as_itself(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        await run_group(fail(error))
    assert raised.value is error
    assert raised.value.__suppress_context__


async def test_of_several_expected_errors_the_first_arrives() -> None:
    first, second = BrokerError("no answer"), UsageError("no Java")
    with pytest.raises(HeadraceError) as raised:
        await run_group(fail(first), fail(second))
    assert raised.value is first


async def test_an_error_of_another_kind_is_not_hidden_behind_an_expected_one() -> None:
    expected, other = BrokerError("no answer"), ZeroDivisionError("a mistake of ours")
    with pytest.raises(ExceptionGroup) as raised:
        await run_group(fail(expected), fail(other))
    assert raised.value.exceptions == (expected, other)


async def test_the_error_of_a_group_in_a_group_arrives_as_itself() -> None:
    error = UsageError("no Java")
    with pytest.raises(UsageError) as raised:
        await run_group(fail(ExceptionGroup("a group of its own", [error])))
    assert raised.value is error


async def test_an_error_in_the_block_arrives_as_itself_and_ends_the_tasks() -> None:
    error, waiting = UsageError("no Java"), asyncio.Event()
    with pytest.raises(UsageError) as raised:
        await run_group(waiting.wait(), inside=fail(error))
    assert raised.value is error
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_block_hears_of_a_failed_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(UsageError):
        await run_group(fail(UsageError("no Java")), inside=asyncio.Event().wait())
    assert not task.cancelling()


async def test_a_cancelled_group_is_cancelled() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run_group(work()))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
