"""The event of a stream record: a nuclio_sdk.Event that is built only as far as it is read."""

import base64
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar, overload

import nuclio_sdk

from headrace.runtime.wire.records import SentRecord, WireRecord, decode_range, encode_headers
from headrace.runtime.worker.api import sdk

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # naive, as Nuclio's
_END_MS = 253_402_300_800_000  # the year 10000, which no datetime reaches


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
        value = self._compute(event)
        setattr(event, self._name, value)
        return value


class LazyPerPartition(Lazy[T]):
    """One that all events of a partition have in common: `of_partition` has it computed once."""


@dataclass(slots=True)
class PartitionView:
    """Where the events of one partition come from, and which of those that wait here were acked.

    `lane_id` is what the wire says for it, `log` the stamp of the log that its offsets are of.

    `end` lies after the last record that has come. The link thread receives, the main thread enters, any
    thread acks.
    """

    topic: str
    partition: int
    trigger: sdk.TriggerInfo
    lane_id: int = 0
    record: WireRecord | None = None
    """The last one whose handler was called."""
    end: int = 0
    has_acked_ahead: bool = False
    open_range: tuple[int, int] | None = None
    """The first and last offset of the range that was entered last, until it is acked."""
    _acked: set[int] = field(default_factory=set)
    _acked_below: int = 0
    _before: int = -1
    _overtaken: WireRecord | None = None
    # Behind the others, which pickles of events have in this order.
    log: str = ""
    reached_before: int = -1
    log_before: tuple[str, int] = ("", -1)
    """The stamp of the log before, and the last offset of it that was handled here."""

    @property
    def entered(self) -> int:
        """The offset of that record, or where some have come since that lie below it, below those."""
        record = self.record
        return self._before if record is None or record is self._overtaken else record.offset

    @property
    def reached(self) -> int:
        """The last offset of its log, more or less, that was handled here, in this assignment or before."""
        return max(self.entered, self.reached_before)

    def follow(self, last: "PartitionView") -> None:
        """It was the partition's before: perhaps of the same log, in another assignment."""
        if last.log == self.log:
            self.reached_before, self.log_before = last.reached, last.log_before
        else:
            self.log_before = (last.log, last.reached)

    def log_of(self, offset: int, current_log: str) -> str:
        """Of an offset that doesn't say it. `current_log`: what is delivered now, perhaps elsewhere.

        Handlers name what they were given: where that was this offset of a log before, and never yet of the
        current one, it is that.
        """
        if current_log and current_log != self.log:
            reached, before = -1, (self.log, self.reached)
        else:
            current_log, reached, before = self.log, self.reached, self.log_before
        return before[0] if reached < offset <= before[1] else current_log

    def received(self, first: int, end: int) -> None:
        """Records of `[first, end)` have come; those that were entered before have failed, and come again."""
        if first <= self.entered:
            self.reached_before = self.reached
            self._before, self._overtaken = first - 1, self.record
        self.end = end

    def acked(self, offset: int, *, is_through: bool) -> None:
        """An ack went out. Of interest is only what waits here: any other offset may be refused."""
        if self.open_range is not None and offset >= self.open_range[1]:
            self.open_range = None
        if not self.entered < offset < self.end:
            return
        self._acked.add(offset)
        if is_through:
            self._acked_below = max(self._acked_below, offset + 1)
        self.has_acked_ahead = True

    def is_acked(self, offset: int, attempt: int) -> bool:
        """Whether its record, which is next, need not be handled.

        One that has failed must: an ack of it may be of the last delivery, whose message was refused, and an
        ack of a later one says nothing of it. The processor leaves it open until this delivery has ended.
        """
        is_acked = offset in self._acked or offset < self._acked_below
        self._acked.discard(offset)
        return is_acked and attempt == 1


class Event(Protocol):
    """What a handler is called with. Its class is the trigger's, and is called as StreamEvent is."""

    @property
    def id(self) -> Any:
        """What a response in a batch names it by."""

    def enter(self) -> None:
        """A batch that it is in is about to be handled."""

    def leave(self) -> None:
        """It was in that batch, and needs no ack: it has had one, or comes again."""


class LazyEvent(sdk.Event):
    """What is read of an event is computed then, and `vars` and copies have all that the SDK's event has."""

    __slots__ = ("_partition", "_record", "attempt")
    _record: WireRecord
    _partition: PartitionView
    attempt: int
    body: Any

    trigger: LazyPerPartition[sdk.TriggerInfo] = LazyPerPartition(attrgetter("_partition.trigger"))

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # what vars() asks for
        """All that the SDK's event has, read by now."""
        for name in _SDKS:
            setattr(self, name, getattr(self, name))
        return _read_so_far(self)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: a record that a decoder made may know of neither."""
        r = self._record
        headers = encode_headers(r.headers)
        time_type = -1 if r.timestamp_type is None else r.timestamp_type
        record = SentRecord(r.offset, r.timestamp, time_type, r.key, r.value, headers)
        about = {"_record": record, "_partition": self._partition, "attempt": self.attempt}
        return {**_read_so_far(self), **about}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What __getstate__ said."""
        for name, value in state.items():
            setattr(self, name, value)

    def enter(self) -> None:
        """As Event."""

    def leave(self) -> None:
        """As Event."""

    @Lazy
    def timestamp(self) -> datetime | None:
        """Naive UTC, to the millisecond; None where there is none, or one beyond the year 9999."""
        ms = self._record.timestamp
        return None if ms is None or not 0 <= ms < _END_MS else _EPOCH + timedelta(0, 0, 0, ms)

    def to_json(self) -> str:
        """As the SDK writes it: bodies in base64, bytes elsewhere by `str`."""
        public = {name: getattr(self, name) for name in (*_SDKS, "key", "attempt") if hasattr(self, name)}
        public["trigger"] = {"kind": self.trigger.kind, "name": self.trigger.name}
        if isinstance(self.body, bytes):
            public["body"] = base64.b64encode(self.body).decode("ascii")
        return json.dumps(public, default=str)


class StreamEvent(LazyEvent):
    """One record. Bodies and keys are bytes; `None` body is a tombstone. Fields may be set, as in Nuclio.

    Beyond Nuclio: `key`, and `record_key`, which is the same whatever code sets as a key; `header_list`
    (every pair, in order), `attempt` (1 on first delivery), `timestamp_type` (0 created, 1 appended, None
    unknown), `first_offset` (of a range; else the offset). `vars(event)` has what Nuclio's has.
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
        """As Event."""
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
        """The same at every delivery of the record."""
        return f"{self._partition.topic}/{self._partition.partition}/{self._record.offset}"

    @Lazy
    def timestamp_type(self) -> int | None:
        """0: by the producer, 1: by the broker."""
        kind = self._record.timestamp_type
        return None if kind is None or kind < 0 else kind


def partition_event_class(event: Any, view: PartitionView) -> Any:
    """That event class, as records of one partition need it: what all of them have in common is read at once.

    Elsewhere it is found for each event by itself, which for code that acks each takes longer than the rest.
    """
    if not (isinstance(event, type) and issubclass(event, StreamEvent)):
        return event
    one = _blank(event)
    one._partition = view  # noqa: SLF001  # as the constructor does
    shared = [name for name in _COMMON if isinstance(inspect.getattr_static(event, name), LazyPerPartition)]
    common = {name: getattr(one, name) for name in shared}
    common["__reduce_ex__"] = lambda self, _: (_blank, (event,), self.__getstate__())
    return type(event.__name__, (event,), {"__slots__": (), "__module__": event.__module__, **common})


def _blank(event: type[StreamEvent]) -> StreamEvent:
    """For copies, which are of the class that can be found by its name."""
    return event.__new__(event)


class RangeEvent(StreamEvent):
    """With `delivery: ranges`: the records from `first_offset` to `offset`, both included, not fetched.

    It has no body, key or headers, and its timestamp is None. `functions.spark.ranges_to_dataframe` reads it.
    """

    def __init__(self, record: WireRecord, partition: PartitionView, attempt: int) -> None:
        super().__init__(record, partition, attempt)
        self.first_offset = decode_range(record.value or b"")
        self.body = None
        self.size = 0

    def enter(self) -> None:
        """As Event."""
        super().enter()
        self._partition.open_range = (self.first_offset, self.offset)

    def leave(self) -> None:
        """As Event."""
        self._partition.open_range = None


_COMMON = ("topic", "path", "shard_id", "trigger")
_SDKS = (
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
