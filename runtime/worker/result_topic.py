"""`resultTopic`: what a handler returns is produced, with the key of its record."""

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from headrace.runtime.worker.api.sdk import Response
from headrace.runtime.worker.results import (
    body_of,
    is_async_stream,
    is_no_ack_header,
    is_stream,
    with_body,
)

_NOTHING = (None, b"", "")
_ONE = (bytes, str, dict)
"""What is one message, and nothing to wait for."""


class ProduceFunction(Protocol):
    """As `context.produce`."""

    def __call__(self, topic: str, value: Any, key: Any = None, headers: Any = None) -> Any: ...


class ResultTopic:
    """A handler's call for one trigger; others that share its workers get what is returned as ever.

    None is nothing, a list or a generator several messages, all else one.

    A Response is its body with its headers, unless its status says that the handler has failed. In a batch
    its event_id names the record whose key it gets; what has none gets no key.
    """

    def __init__(
        self, call: Callable[[Any, Any], Any], trigger_name: str, topic: str, produce: ProduceFunction
    ) -> None:
        self._handler = call
        self._trigger_name = trigger_name
        self._topic = topic
        self._produce = produce

    def __call__(self, context: Any, given: Any) -> Any:
        """What is still to be said of the record: a Response, or where it is async that, awaited."""
        result = self._handler(context, given)
        if not isinstance(given, list) and given.trigger.name != self._trigger_name:
            return result
        if isinstance(result, _ONE):
            self._send(given, result)
            return None
        if inspect.isawaitable(result) or is_async_stream(result):
            return self._finish(given, result)
        return self._take(given, result)

    async def _finish(self, given: Any, result: Any) -> Any:
        if inspect.isawaitable(result):
            result = await result
        if not is_async_stream(result):
            return self._take(given, result)
        async for item in body_of(result):
            self._send(given, _as_of(result, item))
        return None

    def _take(self, given: Any, result: Any) -> Any:
        if not (isinstance(result, list) or is_stream(result)):
            self._send(given, result)
            return result if isinstance(result, Response) else None
        for item in body_of(result):
            self._send(given, _as_of(result, item))
        return result if isinstance(given, list) and isinstance(result, list) else None

    def _send(self, given: Any, item: Any) -> None:
        body, headers = item, None
        if isinstance(item, Response):
            if item.status_code >= 500:
                return
            said = item.headers or {}
            headers = {str(name): value for name, value in said.items() if not is_no_ack_header(name)}
            body = item.body
        if body not in _NOTHING:
            self._produce(self._topic, body, _key(given, item), headers)


def _as_of(result: Any, item: Any) -> Any:
    """What a generator in a response yields has that one's headers."""
    if isinstance(result, Response) and not isinstance(item, Response):
        return with_body(result, item)
    return item


def _key(given: Any, item: Any) -> bytes | None:
    event = given
    if isinstance(given, list):
        event_id = getattr(item, "event_id", None)
        event = next((it for it in given if event_id and it.id == event_id), None)
    key: bytes | None = None if event is None else event.record_key
    return key
