"""A request on its way to a worker, and the event that its handler gets. Workers load it: imports are few."""

import json
import sys
import uuid
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from headrace.runtime.wire.records import WireRecord
from headrace.runtime.worker.api.event import Lazy, LazyEvent
from headrace.runtime.worker.api.event_classes import InBytes
from headrace.runtime.worker.api.partition_view import PartitionView
from headrace.triggers.http.target import Fields, fields_of, path_of, query_of, url_of

_JSON = "application/json"
_UTF8 = "surrogateescape"  # what is no UTF-8 comes back as it was


def head_of(method: str, target: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the key of a request's record: method, target and headers, a line each.

    `target` is what stands between method and version.
    """
    lines = (method.encode(), target.encode(errors=_UTF8), *(b"%b:%b" % pair for pair in headers))
    return b"\n".join(lines)


@lru_cache(maxsize=1024)
def _cased(name: str) -> str:
    """Return a header's name written like Content-Type: Nuclio's handlers look for that."""
    return "-".join(part.capitalize() for part in name.split("-"))


class HttpEvent(LazyEvent):
    """A request, with what Nuclio's event has of it: names of headers are written like Content-Type.

    `body` is what JSON says where the type is application/json, else bytes, as they were sent. `fields` has
    a list where a name comes more than once, `headers` the last. Beyond Nuclio: `header_list` (every pair, in
    order), and `url` with all of it.
    """

    __slots__ = ("_head",)
    in_bytes: ClassVar[type]

    def __init__(self, record: WireRecord, partition: PartitionView, attempt: int) -> None:
        self._record = record
        self._partition = partition
        self._head = (record.key or b"").split(b"\n")
        self.attempt = attempt

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled or copied event."""
        super().__setstate__(state)
        self._head = (self._record.key or b"").split(b"\n")

    type = type_version = version = topic = ""
    offset = shard_id = num_shards = 0
    last_in_batch = False

    # The lambdas are methods in all but form.
    # ruff: disable[SLF001]
    method: Lazy[str] = Lazy(lambda event: event._head[0].decode())
    target: Lazy[str] = Lazy(lambda event: event._head[1].decode(errors=_UTF8))
    path: Lazy[str] = Lazy(lambda event: path_of(event.target))
    fields: Lazy[Fields[str]] = Lazy(lambda event: fields_of(query_of(event.target)))
    url: Lazy[str] = Lazy(lambda event: url_of(event.target, event.headers.get("Host", "")))
    size: Lazy[int] = Lazy(lambda event: len(event._record.value or b""))
    headers: Lazy[dict[str, str]] = Lazy(lambda event: {_cased(n): value for n, value in event.header_list})
    content_type: Lazy[str] = Lazy(lambda event: event.headers.get("Content-Type", ""))
    body: Lazy[Any] = Lazy(lambda event: _body(event._record.value or b"", event.content_type))
    id: Lazy[str] = Lazy(lambda _: str(uuid.uuid4()))
    # ruff: enable[SLF001]

    @Lazy
    def header_list(self) -> list[tuple[str, str]]:
        """Every pair of name and value, in the order and the case in which they came."""
        lines = (line.decode(errors=_UTF8).partition(":") for line in self._head[2:])
        return [(name, value) for name, _, value in lines]


class _HttpInBytes(InBytes):
    """The event where NUCLIO_PYTHON_DECODE_EVENT_STRINGS is off: its strings are bytes."""

    __slots__ = ()
    target: Lazy[str]
    # ruff: disable[SLF001]
    method: Lazy[bytes] = Lazy(lambda event: event._head[0])
    path: Lazy[bytes] = Lazy(lambda event: path_of(event.target).encode(errors=_UTF8))
    headers: Lazy[dict[bytes, bytes]] = Lazy(
        lambda event: {_cased(n).encode(): value.encode(errors=_UTF8) for n, value in event.header_list}
    )
    fields: Lazy[Fields[bytes]] = Lazy(lambda event: fields_of(query_of(event.target).encode(errors=_UTF8)))
    url: Lazy[bytes] = Lazy(lambda event: url_of(event.target, _host(event)).encode(errors=_UTF8))
    content_type: Lazy[bytes] = Lazy(lambda event: event.headers.get(b"Content-Type", b""))
    body: Lazy[Any] = Lazy(
        lambda event: _body(event._record.value or b"", event.content_type.decode(errors=_UTF8))
    )
    id: Lazy[bytes] = Lazy(lambda _: str(uuid.uuid4()).encode())
    # ruff: enable[SLF001]
    topic = b""


HttpEvent.in_bytes = _HttpInBytes


def _host(event: Any) -> str:
    host: str = event.headers.get(b"Host", b"").decode(errors=_UTF8)
    return host


def _body(body: bytes, content_type: str) -> Any:
    if content_type != _JSON or not body:
        return body
    try:
        # With -sig, as a byte order mark before it is no JSON.
        return json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # of UTF-8, too, as where it is compressed
        said = f"Failed deserializing json body, error message: {error}"  # as the SDK says it
        print(said, file=sys.stderr, flush=True)  # noqa: T201
        return body
