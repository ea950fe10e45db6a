"""A firing on its way to a worker, and the event that its handler gets. Workers load it: imports are few."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from headrace.runtime.wire.records import SentRecord, WireRecord
from headrace.runtime.worker.api.event import Lazy, LazyEvent
from headrace.runtime.worker.api.event_classes import InBytes
from headrace.runtime.worker.api.partition_view import PartitionView

Headers = Mapping[str, str | int]
_UTF8 = "surrogatepass"  # YAML may have what is no UTF-8


def head_of(headers: Headers, path: str, method: str) -> bytes:
    """Return the key of a firing's record: headers, path and method, as JSON."""
    return json.dumps([dict(headers), path, method]).encode()


def body_of(text: str) -> bytes:
    """Return the value of a firing's record."""
    return text.encode(errors=_UTF8)


def record_of(number: int, moment: float, head: bytes, body: bytes) -> SentRecord:
    """Return the record of a firing. `moment` is in seconds since 1970; an event has it in milliseconds."""
    return SentRecord(number, round(moment * 1000), -1, head, body, b"")


def id_of(trigger: str, milliseconds: int) -> str:
    """Return a firing's id: NAME/2026-01-02T03:04:05Z, with milliseconds where there are any."""
    return f"{trigger}/{iso_time(milliseconds / 1000)}"


def iso_time(moment: float) -> str:
    """Return a moment, in seconds since 1970, in ISO 8601, UTC."""
    milliseconds = round(moment * 1000)
    time = datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)
    return time.isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds") + "Z"


def _head(event: "CronEvent") -> Any:
    return json.loads(event._record.key or b'[{}, "", ""]')  # noqa: SLF001  # a method in all but form


class CronEvent(LazyEvent):
    """A firing: `timestamp` is its moment, `body` the bytes of `event.body`, whatever they are.

    `id` is the trigger's name and that moment: the same at every attempt.
    """

    __slots__ = ()
    in_bytes: ClassVar[type]

    def __init__(self, record: WireRecord, partition: PartitionView, attempt: int) -> None:
        self._record = record
        self._partition = partition
        self.attempt = attempt

    content_type = url = type = type_version = version = topic = ""
    offset = shard_id = num_shards = 0
    last_in_batch = False

    # The lambdas are methods in all but form.
    # ruff: disable[SLF001]
    body: Lazy[bytes] = Lazy(lambda event: event._record.value or b"")
    headers: Lazy[dict[str, str | int]] = Lazy(lambda event: _head(event)[0])
    path: Lazy[str] = Lazy(lambda event: _head(event)[1])
    method: Lazy[str] = Lazy(lambda event: _head(event)[2])
    size: Lazy[int] = Lazy(lambda event: len(event._record.value or b""))
    fields: Lazy[dict[str, Any]] = Lazy(lambda _: {})
    id: Lazy[str] = Lazy(lambda event: id_of(event._partition.trigger.name, event._record.timestamp))
    # ruff: enable[SLF001]


class _CronInBytes(InBytes):
    """The event where NUCLIO_PYTHON_DECODE_EVENT_STRINGS is off: its strings are bytes."""

    __slots__ = ()
    # ruff: disable[SLF001]
    headers: Lazy[dict[bytes, bytes | int]] = Lazy(
        lambda event: {_in_bytes(name): _in_bytes(value) for name, value in _head(event)[0].items()}
    )
    path: Lazy[bytes] = Lazy(lambda event: body_of(_head(event)[1]))
    method: Lazy[bytes] = Lazy(lambda event: body_of(_head(event)[2]))
    id: Lazy[bytes] = Lazy(
        lambda event: id_of(event._partition.trigger.name, event._record.timestamp).encode()
    )
    # ruff: enable[SLF001]
    topic = b""


CronEvent.in_bytes = _CronInBytes


def _in_bytes(value: str | int) -> Any:
    return body_of(value) if isinstance(value, str) else value
