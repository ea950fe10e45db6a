"""Results of a handler: the rest of its work, whether it says that it failed, and `resultTopic`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from headrace.runtime.worker.api.sdk import Response

_NO_ACK_HEADER = "x-nuclio-stream-no-ack"


class HandlerReturnedError(Exception):
    """The handler did not raise, but its response says that it failed."""


def is_pending(result: Any) -> bool:
    """Whether part of the handler's work has still to be done, on the event loop."""
    # Spelled out, not by body_of: asked of each record whose handler returns something.
    body = result.body if isinstance(result, Response) else result
    return isinstance(body, AsyncGeneratorType) or inspect.isawaitable(result)


def is_async_stream(result: Any) -> bool:
    """Whether a result comes in parts, on the event loop: an async generator, or a Response that has one."""
    return isinstance(body_of(result), AsyncGeneratorType)


def is_stream(result: Any) -> bool:
    """Whether a result comes in parts: a generator, or a Response that has one."""
    return isinstance(body_of(result), GeneratorType)


async def finish(result: Any, *, keeps_items: bool = False) -> Any:
    """Do the rest of the work. With `keeps_items`, what a generator yields becomes one body."""
    if inspect.isawaitable(result):
        result = await result
    if isinstance(body := body_of(result), AsyncGeneratorType):
        items = [item async for item in body if keeps_items]
        return _with_items(result, items) if keeps_items else result
    return result


def join_generators(result: Any) -> Any:
    """Return a result with what generators yield as one body: of a response, or of each in a list of them."""
    if isinstance(result, list):
        return [join_generators(item) for item in result]
    return _with_items(result, list(body)) if isinstance(body := body_of(result), GeneratorType) else result


def _with_items(result: Any, items: list[Any]) -> Response:
    """Return a generator's own response, or its first item, with the bodies of all items joined."""
    if not isinstance(result, Response):
        result = items[0] if items and isinstance(items[0], Response) else Response()
    bodies = list(map(body_of, items))
    body = bodies[0] if len(bodies) == 1 else b"".join(map(body_bytes, bodies))
    return with_body(result, body)


def body_bytes(body: Any) -> bytes:
    """Return a body that is no JSON as bytes: text as UTF-8, None as no bytes."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    return b"" if body is None else str(body).encode(errors="surrogateescape")


def raise_if_failed(result: Any) -> None:
    """Raise HandlerReturnedError where a result says that the handler failed: a status of 500 or more."""
    body = body_of(result)
    if isinstance(body, GeneratorType):
        # The rest of the handler's work, where nobody waits for an answer.
        for _ in body:
            pass
    status = status_of(result)
    if isinstance(status, int) and status >= 500:
        raise HandlerReturnedError(f"the handler's response has status {status}: {body!r:.200}")


def status_of(result: Any) -> Any:
    """Return the status of a response, or of a pair of status and body; 200 for any other result."""
    is_pair = isinstance(result, tuple) and len(result) == 2
    return result[0] if is_pair else getattr(result, "status_code", 200)


NO_RESPONSE = object()


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """How one record of a batch went: `failure` is why it failed, or None.

    `asks_no_ack`: its response asks not to ack it. `is_named`: the response is its own, so that no other
    record is to blame.
    """

    failure: str | None
    asks_no_ack: bool = False
    is_named: bool = False
    response: Any = field(default=NO_RESPONSE, compare=False)
    """The response that it is answered with; it may have failed all the same."""


def batch_outcomes(result: Any, events: Sequence[Any]) -> list[RecordOutcome]:
    """Return what a batch handler's result says of each event.

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


def all_or_nothing(each: list[RecordOutcome]) -> list[RecordOutcome]:
    """Return outcomes of a batch that succeeds or fails as a whole.

    What it has produced belongs to all of it.
    """
    failure = next((outcome.failure for outcome in each if outcome.failure is not None), None)
    if failure is None:
        return each
    whole = RecordOutcome(
        f"another record of its batch has failed, and with it all that the batch produced: {failure}"
    )
    return [whole if outcome.failure is None else outcome for outcome in each]


def _outcome(response: Any, *, is_named: bool = False) -> RecordOutcome:
    try:
        raise_if_failed(response)
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
    """Whether a header is the one that asks not to ack."""
    return str(name).lower() == _NO_ACK_HEADER


def with_body(response: Response, body: Any) -> Response:
    """Return a copy of a response with another body."""
    return Response(response.headers, body, response.content_type, response.status_code, response.event_id)


def body_of(result: Any) -> Any:
    """Return the part of a result that may be a generator: the body of a Response, else the result itself."""
    return result.body if isinstance(result, Response) else result


_NOTHING = (None, b"", "")
_ONE = (bytes, str, dict)
"""Types of what is one message, with nothing to wait for."""


class ResultTopic:
    """A handler's call for one trigger, whose results are produced to a topic.

    Other triggers that share its workers get what is returned as ever. None is no message, a list or a
    generator several, all else one. A Response is its body with its headers, unless its status says that the
    handler has failed. In a batch its event_id names the record whose key it gets; without one it gets no
    key.
    """

    def __init__(
        self, call: Callable[[Any, Any], Any], trigger_name: str, topic: str, produce: Callable[..., Any]
    ) -> None:
        self._handler = call
        self._trigger_name = trigger_name
        self._topic = topic
        self._produce = produce

    def __call__(self, context: Any, event_or_batch: Any) -> Any:
        """Call the handler, and return what is left to judge: a Response, or what gives one when awaited."""
        result = self._handler(context, event_or_batch)
        if not isinstance(event_or_batch, list) and event_or_batch.trigger.name != self._trigger_name:
            return result
        if isinstance(result, _ONE):
            self._send(event_or_batch, result)
            return None
        if inspect.isawaitable(result) or is_async_stream(result):
            return self._finish(event_or_batch, result)
        return self._take(event_or_batch, result)

    async def _finish(self, event_or_batch: Any, result: Any) -> Any:
        if inspect.isawaitable(result):
            result = await result
        if not is_async_stream(result):
            return self._take(event_or_batch, result)
        async for item in body_of(result):
            self._send(event_or_batch, _as_of(result, item))
        return None

    def _take(self, event_or_batch: Any, result: Any) -> Any:
        if not (isinstance(result, list) or is_stream(result)):
            self._send(event_or_batch, result)
            return result if isinstance(result, Response) else None
        for item in body_of(result):
            self._send(event_or_batch, _as_of(result, item))
        return result if isinstance(event_or_batch, list) and isinstance(result, list) else None

    def _send(self, event_or_batch: Any, item: Any) -> None:
        body, headers = item, None
        if isinstance(item, Response):
            # The handler says that it failed: that is judged by the loop, and nothing is produced.
            if item.status_code >= 500:
                return
            given_headers = item.headers or {}
            headers = {
                str(name): value for name, value in given_headers.items() if not is_no_ack_header(name)
            }
            body = item.body
        if body not in _NOTHING:
            self._produce(self._topic, body, _key(event_or_batch, item), headers)


def _as_of(result: Any, item: Any) -> Any:
    """Return an item of a generator, with the headers of the Response that has the generator."""
    if isinstance(result, Response) and not isinstance(item, Response):
        return with_body(result, item)
    return item


def _key(event_or_batch: Any, item: Any) -> bytes | None:
    event = event_or_batch
    if isinstance(event_or_batch, list):
        event_id = getattr(item, "event_id", None)
        event = next((it for it in event_or_batch if event_id and it.id == event_id), None)
    key: bytes | None = None if event is None else event.record_key
    return key
