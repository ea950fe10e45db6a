"""Events of streams: nuclio_sdk.Events that are built only as far as a handler reads them."""

import base64
import inspect
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Generic, TypeVar, overload

import nuclio_sdk

from headrace.runtime.wire.records import SentRecord, WireRecord, decode_range, encode_headers
from headrace.runtime.worker.api import sdk
from headrace.runtime.worker.api.partition_view import PartitionView

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # naive, as Nuclio's
_END_MS = 253_402_300_800_000  # the year 10000, which no datetime reaches


class Lazy(Generic[T]):
    """An attribute that is computed when it is first read, and that may be set: a non-data descriptor."""

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
        value = self._compute(event)
        setattr(event, self._name, value)
        return value


class LazyPerPartition(Lazy[T]):
    """A Lazy attribute that all events of a partition share: `partition_event_class` computes it once."""


class LazyEvent(sdk.Event):
    """An event whose attributes are computed when they are read: the base of all triggers' events.

    A trigger names its subclass, which is called with the record, the view of its partition and the attempt,
    as StreamEvent is. `vars`, copies and pickles have all that the SDK's event has.
    """

    __slots__ = ("_partition", "_record", "attempt")
    _record: WireRecord
    _partition: PartitionView
    attempt: int
    id: Any
    """Names the event in a batch's responses; each trigger's class has one."""
    body: Any

    trigger: LazyPerPartition[sdk.TriggerInfo] = LazyPerPartition(attrgetter("_partition.trigger"))

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # what vars() asks for
        """Attributes that the SDK's event has, computed by now."""
        for name in _SDK_ATTRIBUTES:
            setattr(self, name, getattr(self, name))
        return _read_so_far(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles; a record that a decoder has made may support neither."""
        r = self._record
        headers = encode_headers(r.headers)
        time_type = -1 if r.timestamp_type is None else r.timestamp_type
        record = SentRecord(r.offset, r.timestamp, time_type, r.key, r.value, headers)
        about = {"_record": record, "_partition": self._partition, "attempt": self.attempt}
        return {**_read_so_far(self), **about}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state that `__getstate__` has returned."""
        for name, value in state.items():
            setattr(self, name, value)

    def enter(self) -> None:
        """Note that a batch with this event is about to be handled."""

    def leave(self) -> None:
        """Note that this event of a batch needs no ack any more: it has had one, or comes again."""

    @Lazy
    def timestamp(self) -> datetime | None:
        """Naive UTC, to the millisecond; None where the record has none, or one beyond the year 9999."""
        ms = self._record.timestamp
        return None if ms is None or not 0 <= ms < _END_MS else _EPOCH + timedelta(0, 0, 0, ms)

    def to_json(self) -> str:
        """Return the event as the SDK writes it: bodies in base64, bytes elsewhere by `str`."""
        public = {
            name: getattr(self, name) for name in (*_SDK_ATTRIBUTES, "key", "attempt") if hasattr(self, name)
        }
        public["trigger"] = {"kind": self.trigger.kind, "name": self.trigger.name}
        if isinstance(self.body, bytes):
            public["body"] = base64.b64encode(self.body).decode("ascii")
        return json.dumps(public, default=str)


class StreamEvent(LazyEvent):
    """The event of one record of a stream. A `body` of None is a tombstone. Fields may be set, as in Nuclio.

    `body` and `key` are bytes, `shard_id` is the partition, `offset` the record's. Beyond Nuclio's events it
    has `key`, and `record_key`, which is the same whatever code sets as a key; `header_list` (every pair, in
    order), `attempt` (1 on first delivery), `timestamp_type` (0 created, 1 appended, None unknown),
    `first_offset` (of a range; else the offset). `vars(event)` has what Nuclio's has.
    """

    __slots__ = ()
    body: bytes | None

    # Not the SDK's __init__: it costs six times as much per record, for fields that streams leave empty.
    def __init__(self, record: WireRecord, partition: PartitionView, attempt: int) -> None:
        self._record = record
        self._partition = partition
        self.offset = record.offset
        self.body = record.value
        self.attempt = attempt

    def enter(self) -> None:
        """Note that the handler is in this record, so that its ack is known to be of what runs."""
        self._partition.record = self._record

    content_type = method = url = type = type_version = version = ""
    num_shards = 0
    last_in_batch = False

    # In C where that can be: handlers read some of each record. The lambdas are methods in all but form.
    # ruff: disable[SLF001]
    topic: LazyPerPartition[str] = LazyPerPartition(attrgetter("_partition.topic"))
    path: LazyPerPartition[str] = LazyPerPartition(attrgetter("_partition.topic"))
    shard_id: LazyPerPartition[int] = LazyPerPartition(attrgetter("_partition.partition"))
    first_offset: Lazy[int] = Lazy(attrgetter("offset"))
    record_key: Lazy[bytes | None] = Lazy(attrgetter("_record.key"))
    key: Lazy[bytes | None] = Lazy(attrgetter("_record.key"))
    size: Lazy[int] = Lazy(lambda event: len(event._record.value or b""))
    fields: Lazy[dict[str, Any]] = Lazy(lambda _: {})
    header_list: Lazy[list[tuple[str, bytes | None]]] = Lazy(lambda event: list(event._record.headers))
    headers: Lazy[dict[str, bytes | None]] = Lazy(lambda event: dict(event.header_list))
    # ruff: enable[SLF001]

    @Lazy
    def id(self) -> str:
        """Topic, partition and offset, with slashes between: the same at every delivery of the record."""
        return f"{self._partition.topic}/{self._partition.partition}/{self._record.offset}"

    @Lazy
    def timestamp_type(self) -> int | None:
        """0 where the producer has set the timestamp, 1 where the broker has, None where that is unknown."""
        kind = self._record.timestamp_type
        return None if kind is None or kind < 0 else kind


def partition_event_class(event: Any, view: PartitionView) -> Any:
    """Return a subclass of `event` for one partition: what all its events share is a class attribute there.

    Else it is found for each event by itself, which for code that acks each record takes longer than the
    rest.
    """
    if not (isinstance(event, type) and issubclass(event, StreamEvent)):
        return event
    sample = _blank(event)
    sample._partition = view  # noqa: SLF001  # as the constructor does
    names = [
        name for name in _PER_PARTITION if isinstance(inspect.getattr_static(event, name), LazyPerPartition)
    ]
    attributes = {name: getattr(sample, name) for name in names}
    attributes["__reduce_ex__"] = lambda self, _: (_blank, (event,), self.__getstate__())
    return type(event.__name__, (event,), {"__slots__": (), "__module__": event.__module__, **attributes})


def _blank(event: type[StreamEvent]) -> StreamEvent:
    """Return an empty event, for copies and pickles: its class has to be one that is found by its name."""
    return event.__new__(event)


class RangeEvent(StreamEvent):
    """The records from `first_offset` to `offset`, both included, which `delivery: ranges` doesn't fetch.

    It has no body, key or headers, and its timestamp is None. `functions.spark.ranges_to_dataframe` reads it.
    """

    def __init__(self, record: WireRecord, partition: PartitionView, attempt: int) -> None:
        super().__init__(record, partition, attempt)
        self.first_offset = decode_range(record.value or b"")
        self.body = None
        self.size = 0

    def enter(self) -> None:
        """Note that the handler is in this range: only its last offset may be acked."""
        super().enter()
        self._partition.open_range = (self.first_offset, self.offset)

    def leave(self) -> None:
        """Note that the range needs no ack any more."""
        self._partition.open_range = None


_PER_PARTITION = ("topic", "path", "shard_id", "trigger")
# Names that the SDK's event keeps in its __dict__.
_SDK_ATTRIBUTES = (
    "body",
    "content_type",
    "trigger",
    "fields",
    "headers",
    "id",
    "method",
    "path",
    "size",
    "timestamp",
    "url",
    "shard_id",
    "num_shards",
    "type",
    "type_version",
    "version",
    "last_in_batch",
    "offset",
    "topic",
)
_read_so_far: Callable[[LazyEvent], dict[str, Any]] = vars(nuclio_sdk.Event)["__dict__"].__get__
