"""What a handler returned: the rest of its work, and whether it says that it failed."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import AsyncGeneratorType, GeneratorType
from typing import Any

import nuclio_sdk

_NO_ACK_HEADER = "x-nuclio-stream-no-ack"


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one record of a batch went: why it failed, or None; and whether its response asks not to ack it."""

    failure: str | None
    asks_no_ack: bool = False


def outcomes(result: Any, events: Sequence[Any]) -> list[Outcome]:
    """What a batch handler's result says of each event.

    A list has a response for each event that went well, with the event's id; anything else speaks for all.
    """
    if not isinstance(result, list):
        return [_outcome(result)] * len(events)
    by_id = {getattr(response, "event_id", None): response for response in result}
    return [
        _outcome(by_id[event.id])
        if event.id in by_id
        else Outcome("the handler's list of responses has none with the event_id of this event")
        for event in events
    ]


def _outcome(response: Any) -> Outcome:
    try:
        check(response)
    except HandlerReturnedError as error:
        return Outcome(str(error))
    return Outcome(None, asks_no_ack(response))


def asks_no_ack(result: Any) -> bool:
    """Whether a response carries `x-nuclio-stream-no-ack`, as `ensure_no_ack` sets it."""
    headers = getattr(result, "headers", None)
    if not isinstance(headers, Mapping):
        return False
    values = [value for name, value in headers.items() if str(name).lower() == _NO_ACK_HEADER]
    return any(value is True or str(value).lower() == "true" for value in values)


def _body(result: Any) -> Any:
    """The part of a response that may be a generator."""
    return result.body if isinstance(result, nuclio_sdk.Response) else result
