"""What a handler returned: the rest of its work, and whether it says that it failed."""

import inspect
from types import AsyncGeneratorType, GeneratorType
from typing import Any

import nuclio_sdk


class HandlerReturnedError(Exception):
    """The handler did not raise, but its response says that it failed."""


def is_pending(result: Any) -> bool:
    """Whether part of the handler's work has still to be done, on the event loop."""
    return inspect.isawaitable(result) or isinstance(_body(result), AsyncGeneratorType)


async def finish(result: Any) -> Any:
    """Do the rest of the work."""
    if inspect.isawaitable(result):
        result = await result
    if isinstance(body := _body(result), AsyncGeneratorType):
        async for _ in body:
            pass
    return result


def check(result: Any) -> None:
    """Raise where the result says that the handler failed."""
    body = _body(result)
    if isinstance(body, GeneratorType):
        for _ in body:
            pass
    is_pair = isinstance(result, tuple) and len(result) == 2
    status = result[0] if is_pair else getattr(result, "status_code", 200)
    if isinstance(status, int) and status >= 500:
        raise HandlerReturnedError(f"the handler's response has status {status}: {body!r:.200}")


def _body(result: Any) -> Any:
    """The part of a response that may be a generator."""
    return result.body if isinstance(result, nuclio_sdk.Response) else result
