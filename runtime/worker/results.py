"""What a handler returned: the rest of its work, and whether it says that it failed."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from headrace.runtime.worker.api.sdk import Response

_NO_ACK_HEADER = "x-nuclio-stream-no-ack"


class HandlerReturnedError(Exception):
    """The handler did not raise, but its response says that it failed."""


def is_pending(result: Any) -> bool:
    """Whether part of the handler's work has still to be done, on the event loop."""
    return inspect.isawaitable(result) or is_async_stream(result)


def is_async_stream(result: Any) -> bool:
    """Whether it comes in parts, on the event loop."""
    return isinstance(body_of(result), AsyncGeneratorType)


def is_stream(result: Any) -> bool:
    """Whether it comes in parts."""
    return isinstance(body_of(result), GeneratorType)


async def finish(result: Any, *, keeps_items: bool = False) -> Any:
    """Do the rest of the work. With `keeps_items`, what a generator yields becomes one body."""
    if inspect.isawaitable(result):
        result = await result
    if isinstance(body := body_of(result), AsyncGeneratorType):
        items = [item async for item in body if keeps_items]
        return _with_items(result, items) if keeps_items else result
    return result


def joined(result: Any) -> Any:
    """The same with what generators yield as one body: of a response, or of each in a list of them."""
    if isinstance(result, list):
        return [joined(item) for item in result]
    return _with_items(result, list(body)) if isinstance(body := body_of(result), GeneratorType) else result


def _with_items(result: Any, items: list[Any]) -> Response:
    """A generator's own response, else its first item's, with the bodies of all items behind each other."""
    if not isinstance(result, Response):
        result = items[0] if items and isinstance(items[0], Response) else Response()
    bodies = list(map(body_of, items))
    body = bodies[0] if len(bodies) == 1 else b"".join(map(plain, bodies))
    return with_body(result, body)


def plain(body: Any) -> bytes:
    """A body that is no JSON, on its way out: text as UTF-8, None as nothing."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    return b"" if body is None else str(body).encode(errors="surrogateescape")


def check(result: Any) -> None:
    """Raise where the result says that the handler failed."""
    body = body_of(result)
    if isinstance(body, GeneratorType):
        for _ in body:
            pass
    status = status_of(result)
    if isinstance(status, int) and status >= 500:
        raise HandlerReturnedError(f"the handler's response has status {status}: {body!r:.200}")


def status_of(result: Any) -> Any:
    """What stands where a response has its status; 200 where it has none."""
    is_pair = isinstance(result, tuple) and len(result) == 2
    return result[0] if is_pair else getattr(result, "status_code", 200)


NO_RESPONSE = object()


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """How one record of a batch went: why it failed, or None; and whether its response asks not to ack it.

    `is_named`: the response is its own, so that no other record is to blame.
    """

    failure: str | None
    asks_no_ack: bool = False
    is_named: bool = False
    response: Any = field(default=NO_RESPONSE, compare=False)
    """What it is answered with; it may have failed all the same."""


def outcomes(result: Any, events: Sequence[Any]) -> list[RecordOutcome]:
    """What a batch handler's result says of each event.

    A list has a response for each event that went well, with the event's id; anything else speaks for all.
    """
    if not isinstance(result, list):
        return [_outcome(result)] * len(events)
    by_id = {getattr(response, "event_id", None): response for response in result}
    return [
        _outcome(by_id[event.id], is_named=True)
        if event.id in by_id
        else RecordOutcome("the handler's list of responses has none with the event_id of this event")
        for event in events
    ]


def as_one(each: list[RecordOutcome]) -> list[RecordOutcome]:
    """A batch that succeeds or fails as a whole: what it has produced belongs to all of it."""
    failure = next((outcome.failure for outcome in each if outcome.failure is not None), None)
    if failure is None:
        return each
    whole = RecordOutcome(
        f"another record of its batch has failed, and with it all that the batch produced: {failure}"
    )
    return [whole if outcome.failure is None else outcome for outcome in each]


def _outcome(response: Any, *, is_named: bool = False) -> RecordOutcome:
    try:
        check(response)
    except HandlerReturnedError as error:
        return RecordOutcome(str(error), is_named=is_named, response=response)
    return RecordOutcome(None, asks_no_ack(response), response=response)


def asks_no_ack(result: Any) -> bool:
    """Whether a response carries `x-nuclio-stream-no-ack`, as `ensure_no_ack` sets it."""
    headers = getattr(result, "headers", None)
    if not isinstance(headers, Mapping):
        return False
    values = [value for name, value in headers.items() if is_no_ack_header(name)]
    return any(value is True or str(value).lower() == "true" for value in values)


def is_no_ack_header(name: Any) -> bool:
    """Whether it is the header that says so."""
    return str(name).lower() == _NO_ACK_HEADER


def with_body(response: Response, body: Any) -> Response:
    """The same response, but for its body."""
    return Response(response.headers, body, response.content_type, response.status_code, response.event_id)


def body_of(result: Any) -> Any:
    """The part of a response that may be a generator."""
    return result.body if isinstance(result, Response) else result
