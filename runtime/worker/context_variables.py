"""Context variables that a handler's calls see: as init_context has left them, and each call its own."""

import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextvars import Context
from typing import Any

from headrace.runtime.worker.api.sdk import Response
from headrace.runtime.worker.results import (
    body_of,
    is_async_stream,
    is_pending,
    is_stream,
    with_body,
)


@types.coroutine
def await_inside(context: Context, awaitable: Any) -> Generator[Any, Any, Any]:
    """Await in `context`. The task stays the same, as whoever cancels it expects."""
    steps = (awaitable if type(awaitable) is types.CoroutineType else as_coroutine(awaitable)).__await__()
    step, value = steps.send, None
    while True:
        try:
            waits_for = context.run(step, value)
        except StopIteration as end:
            return end.value
        try:
            value = yield waits_for
            step = steps.send
        except GeneratorExit:
            # Its `finally` blocks run in the context, too.
            context.run(steps.close)
            raise
        except BaseException as error:  # such as a cancellation
            step, value = steps.throw, error


async def as_coroutine(awaitable: Any) -> Any:
    """Await whatever can be awaited, as a coroutine."""
    return await awaitable


class ContextVariables:
    """Keeps the context of calls: one for all, until a call has set a variable; from then on each has a copy.

    Most handlers set none, and a copy for each record costs more than a quick handler.
    """

    def __init__(self, first: Context) -> None:
        """`first` is the context as the handler's module and init_context have left it."""
        self.first = first
        self.shared = first.copy()
        """The context that runs are handled in."""
        self.unset = first
        """A context that `shared` equals as long as no call has set a variable."""

    def apart(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call` so that each has a copy of `first`, with all that it does later; from now on."""
        first = self.first
        # What the call has set stays in the context that was shared so far: later runs have another.
        self.shared = self.unset = first.copy()

        def in_copy(*arguments: Any) -> Any:
            context = first.copy()
            result = context.run(call, *arguments)
            return result if result is None else within(context, result)

        return in_copy

    async def alone(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`, with all that it calls, in one copy of `first`."""
        await await_inside(self.first.copy(), work)


def within(context: Context, result: Any) -> Any:
    """Return what a handler has returned so that the rest of its work is done in `context`."""
    if is_async_stream(result):
        return _as_of(result, _async_steps(context, body_of(result)))
    if is_stream(result):
        return _as_of(result, _steps(context, body_of(result)))
    return _rest(context, result) if is_pending(result) else result


async def _rest(context: Context, result: Any) -> Any:
    return within(context, await await_inside(context, result))


def _steps(context: Context, body: Any) -> Iterator[Any]:
    # None may be one of the items.
    end = object()
    try:
        while (item := context.run(next, body, end)) is not end:
            yield item
    finally:
        context.run(body.close)


async def _async_steps(context: Context, body: Any) -> AsyncIterator[Any]:
    try:
        while True:
            try:
                item = await await_inside(context, body.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        await await_inside(context, body.aclose())


def _as_of(result: Any, body: Any) -> Any:
    return with_body(result, body) if isinstance(result, Response) else body
