"""The event of a stream record: a nuclio_sdk.Event that is built only as far as it is read."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, overload

import nuclio_sdk

from headrace.runtime.wire import SentRecord, decode_headers

T = TypeVar("T")


class Lazy(Generic[T]):
    """An attribute that is computed when first read, and that may be set: a non-data descriptor."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, event: None, owner: type) -> "Lazy[T]": ...
    @overload
    def __get__(self, event: object, owner: type) -> T: ...
    def __get__(self, event: object | None, owner: type) -> "Lazy[T] | T":
        if event is None:
            return self
        value = event.__dict__[self._name] = self._compute(event)
        return value


@dataclass(frozen=True, slots=True)
class Source:
    """Where the events of one partition come from."""

    topic: str
    partition: int
    trigger: nuclio_sdk.TriggerInfo


class StreamEvent(nuclio_sdk.Event):  # type: ignore[misc]  # the SDK is untyped
    """One record. Bodies and keys are bytes; `None` body is a tombstone. Fields may be set, as in Nuclio.

    Beyond Nuclio: `key`, `header_list` (every pair, in order), `attempt` (1 on first delivery),
    `timestamp_type` (0 created, 1 appended, None unknown).
    """

    # Not the SDK's __init__: it costs six times as much per record, for fields that streams leave empty.
    def __init__(self, record: SentRecord, source: Source, attempt: int) -> None:
        self._record = record
        self._source = source
        self.offset = record[0]
        self.body = record[4]
        self.attempt = attempt

    content_type = method = url = type = type_version = version = ""
    num_shards = 0
    last_in_batch = False

    # The lambdas are methods of this class in all but form.
    # ruff: disable[SLF001]
    topic = Lazy(lambda event: event._source.topic)
    path = Lazy(lambda event: event._source.topic)
    shard_id = Lazy(lambda event: event._source.partition)
    trigger = Lazy(lambda event: event._source.trigger)
    key = Lazy(lambda event: event._record.key)
    size = Lazy(lambda event: len(event._record.value or b""))
    fields: Lazy[dict[str, Any]] = Lazy(lambda _: {})
    header_list = Lazy(lambda event: decode_headers(event._record.headers))
    headers = Lazy(lambda event: dict(event.header_list))
    # ruff: enable[SLF001]

    @Lazy
    def id(self) -> str:
        """The same at every delivery of the record."""
        return f"{self._source.topic}/{self._source.partition}/{self._record.offset}"

    @Lazy
    def timestamp(self) -> datetime | None:
        """Naive UTC, to the millisecond; None where Kafka has none."""
        ms = self._record.timestamp
        return None if ms < 0 else datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)

    @Lazy
    def timestamp_type(self) -> int | None:
        """0: by the producer, 1: by the broker."""
        kind = self._record.timestamp_type
        return None if kind < 0 else kind

    def to_json(self) -> str:
        """As the SDK writes it: bodies in base64, bytes elsewhere by `str`."""
        public = {name: getattr(self, name) for name in _PUBLIC}
        public["trigger"] = {"kind": self.trigger.kind, "name": self.trigger.name}
        if isinstance(self.body, bytes):
            public["body"] = base64.b64encode(self.body).decode("ascii")
        return json.dumps(public, default=str)


_PUBLIC = (
    *("body", "content_type", "trigger", "fields", "headers", "id", "method", "path", "size", "timestamp"),
    *("url", "shard_id", "num_shards", "type", "type_version", "version", "last_in_batch", "offset", "topic"),
    *("key", "attempt"),
)
