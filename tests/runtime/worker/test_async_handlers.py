"""Which handlers are async: what Python says of a function, on each version, with nothing deprecated."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from headrace.runtime.worker.handler import is_async


async def _coroutine(_context: Any, _event: Any) -> None: ...


async def _generator(_context: Any, _event: Any) -> Any:
    yield


class _Callable:
    async def __call__(self, _context: Any, _event: Any) -> None: ...


def _sync(_context: Any, _event: Any) -> None: ...


def _returning_one(context: Any, event: Any) -> Any:
    return _coroutine(context, event)


def _marked_as_before_3_12(call: Any) -> Any:
    @functools.wraps(call)
    def wrapped(*given: Any) -> Any:
        return call(*given)

    wrapped._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]  # as asgiref did
    return wrapped


_marked = getattr(inspect, "markcoroutinefunction", _marked_as_before_3_12)


@pytest.mark.parametrize(
    "handler",
    [
        _coroutine,
        _generator,
        _Callable(),
        _marked(_returning_one),
        _marked_as_before_3_12(_returning_one),
    ],
)
def test_a_handler_whose_calls_have_to_be_awaited_is_async(handler: Callable[[Any, Any], Any]) -> None:
    assert is_async(handler)


@pytest.mark.parametrize("handler", [_sync, print, functools.wraps(_coroutine)(_sync)])
def test_others_are_not(handler: Callable[[Any, Any], Any]) -> None:
    assert not is_async(handler)
