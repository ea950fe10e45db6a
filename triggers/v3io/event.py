"""A stream's record on its way to a worker, and the event that its handler gets. Workers load it."""

from typing import Any, ClassVar

from headrace.runtime.v3io.records import StreamRecord
from headrace.runtime.wire.records import SentRecord, encode_headers
from headrace.runtime.worker.api import sdk
from headrace.runtime.worker.api.event import Lazy, StreamEvent
from headrace.runtime.worker.api.event_classes import InBytes

_CLIENT_INFO = "client-info"
# Kafka's LogAppendTime: the time is when the server got the record, and not when its producer made it.
_BY_THE_SERVER = 1
_KIND = "v3io-stream"  # as in Nuclio's events, whichever alias the file has


def record_of(record: StreamRecord) -> SentRecord:
    """Return a stream's record as workers get it: offsets are sequence numbers, keys partition keys."""
    # JSON can spell half of a surrogate pair, which UTF-8 can't: such a key must not stop the shard.
    key, info = record.partition_key.encode(errors="surrogatepass") or None, record.client_info
    headers = encode_headers([(_CLIENT_INFO, info)] if info else [])
    return SentRecord(record.sequence, record.arrived_ms, _BY_THE_SERVER, key, record.data, headers)


class V3ioEvent(StreamEvent):
    """A record: `offset` is its sequence number, `timestamp` when it arrived, `topic` the stream's path.

    Beyond Nuclio: `partition_key` (a str, or None; `key` has its bytes) and `client_info` (bytes, or None).
    """

    __slots__ = ()
    in_bytes: ClassVar[type]
    path = ""

    # The lambdas are methods in all but form.
    # ruff: disable[SLF001]
    # ClientInfo travels to the worker as the one header; handlers get it as an attribute, and no headers.
    headers: Lazy[dict[str, bytes | None]] = Lazy(lambda _: {})
    header_list: Lazy[list[tuple[str, bytes | None]]] = Lazy(lambda _: [])
    trigger: Lazy[sdk.TriggerInfo] = Lazy(lambda event: _with_nuclios_kind(event._partition.trigger))
    client_info: Lazy[bytes | None] = Lazy(lambda event: dict(event._record.headers).get(_CLIENT_INFO))
    # ruff: enable[SLF001]

    @Lazy
    def partition_key(self) -> str | None:
        """The partition key that its producer gave; None where it gave none."""
        key = self.record_key
        return None if key is None else key.decode(errors="replace")


class _V3ioInBytes(InBytes):
    """The event where NUCLIO_PYTHON_DECODE_EVENT_STRINGS is off: its strings are bytes."""

    __slots__ = ()
    path = b""
    headers: Lazy[dict[bytes, bytes | None]] = Lazy(lambda _: {})
    id: Lazy[bytes] = Lazy(lambda event: b"%b/%d/%d" % (event.topic, event.shard_id, event.offset))
    trigger: Lazy[sdk.TriggerInfo] = Lazy(lambda event: _in_bytes(event._partition.trigger))  # noqa: SLF001  # a method in all but form


V3ioEvent.in_bytes = _V3ioInBytes


def _with_nuclios_kind(trigger: sdk.TriggerInfo) -> sdk.TriggerInfo:
    return sdk.TriggerInfo(_KIND, trigger.name)


def _in_bytes(trigger: sdk.TriggerInfo) -> Any:
    info: Any = sdk.TriggerInfo
    return info(_KIND.encode(), trigger.name.encode())
