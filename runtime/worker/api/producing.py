"""What handlers produce, in a worker process: from any thread and any event loop."""

import asyncio
import json
import struct
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeAlias

from headrace.runtime.wire.produce import (
    PRODUCE_WINDOW_BYTES,
    WAITING,
    Message,
    ProduceRequest,
    ProduceResult,
    decode_produced,
    encode_produce,
    place_name,
)
from headrace.runtime.wire.records import Headers, WireRecord
from headrace.runtime.worker.api.serial_writer import SerialWriter

_TRACE = frozenset({"traceparent", "tracestate", "baggage"})
_ASKING = threading.RLock()  # of all messages: each is asked for seldom, and at once


class Confirmed(NamedTuple):
    """Where a message is by now. `offset` is -1 where the broker doesn't say."""

    partition: int
    offset: int


class ProduceError(Exception):
    """A message was not written, for good. Says why."""


class _Outcome(Future[Confirmed]):
    """Of a message that nobody can take back: who gives up waiting for it cancels nothing."""

    def cancel(self) -> bool:
        """No."""
        return False


class PendingMessage:
    """A message that was produced. Await it, or call `result`, to learn where it is; or let it be.

    Raises ProduceError where it couldn't be written: then the record that it is of has failed, whatever its
    handler makes of that. Raises RuntimeError with exactlyOnce, where it isn't written before the handler
    has returned.
    """

    __slots__ = ("_future", "_goes_with_commit", "_said", "size_bytes")

    def __init__(self, size_bytes: int, *, goes_with_commit: bool = False) -> None:
        self.size_bytes = size_bytes
        self._goes_with_commit = goes_with_commit
        self._said: ProduceResult | None = None
        self._future: Future[Confirmed] | None = None  # made for who asks: for most messages nobody does

    def __await__(self) -> Generator[None, None, Confirmed]:
        self._check()
        return asyncio.wrap_future(self._asked()).__await__()

    def result(self, timeout_seconds: float | None = None) -> Confirmed:
        """As awaiting it, for sync handlers. Blocks. Raises TimeoutError."""
        self._check()
        return self._asked().result(timeout_seconds)

    def _check(self) -> None:
        if self._goes_with_commit:
            raise RuntimeError(
                "with exactlyOnce a message is written with the commit of its record, after the handler has "
                "returned: there is nothing to wait for"
            )

    def end(self, said: ProduceResult) -> None:
        """What became of it has come (link thread)."""
        with _ASKING:
            self._said = said
            future = self._future
        if future is not None:
            _tell(future, said)

    def _asked(self) -> Future[Confirmed]:
        with _ASKING:
            if self._future is None:
                self._future = _Outcome()
                if self._said is not None:
                    _tell(self._future, self._said)
            return self._future


def _tell(future: Future[Confirmed], said: ProduceResult) -> None:
    if said.failure:
        future.set_exception(ProduceError(said.failure))
    else:
        future.set_result(Confirmed(said.partition, said.offset))


_Item: TypeAlias = tuple[int, int, Message, PendingMessage]
"""Lane and offset of the record that a message is of, and the message."""


class WorkerProducer:
    """Sends messages to the processor, and bounds by bytes those that no broker has confirmed yet."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        place: Callable[[], tuple[int, int, WireRecord | None]],
        outputs: Sequence[str] | None = (),
        topics: Iterable[Sequence[str]] | None = None,
        *,
        is_transactional: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """`place`: lane and offset of the record that the caller works for, and itself where it is one.

        `outputs` are all that a message may name, `topics`, each with its output, all that it may go to;
        None: any. `is_transactional`: whether messages of that lane's records go with a commit.
        """
        self.trace_headers: Callable[[], Headers] = lambda: ()
        """Of the span that is current where it is called, if one is. Its owner may set it."""
        self._outputs = outputs
        self._topics = None if topics is None else frozenset(map(tuple, topics))
        self._is_transactional = is_transactional
        self._send = send
        self._send_in_turn = SerialWriter(self._send_each)
        self._place = place
        self._room = threading.Condition()
        self._open: dict[int, PendingMessage] = {}
        self._open_bytes = 0
        self._next = 0
        self._is_forked = False

    def produce(self, message: Message) -> PendingMessage:
        """Returns once it is on its way to the processor: at once, unless too much is.

        Raises RuntimeError in a process that the handler has forked, ValueError for a place that it may not
        go to, and for what can't be a message.
        """
        self._check_place(message)
        if self._is_forked:
            raise RuntimeError(f"produce({message.topic}): in a process that the handler has forked")
        lane_id, offset, record = self._place()
        origin = self.trace_headers() or (record.headers if record is not None else ())
        if origin:
            message = message._replace(headers=with_trace_headers(message.headers, origin))
        goes_with_commit = not message.output and self._is_transactional(lane_id)
        one = PendingMessage(message.size_bytes, goes_with_commit=goes_with_commit)
        self._send_in_turn((lane_id, offset, message, one))
        return one

    def _send_each(self, waiting: deque[_Item]) -> None:
        """In turn: the processor takes no number before the one below it."""
        while waiting:
            lane_id, offset, message, one = waiting.popleft()
            try:
                data = encode_produce(ProduceRequest(self._next, lane_id, offset, message))
            except (struct.error, UnicodeEncodeError) as error:
                raise ValueError(f"produce({message.topic!r}): no message can say that: {error}") from None
            with self._room:
                while self._open_bytes and self._open_bytes + one.size_bytes > PRODUCE_WINDOW_BYTES:
                    self._room.wait()
                self._open[self._next] = one
                self._open_bytes += one.size_bytes
                self._next += 1
            self._send(data)

    def _check_place(self, message: Message) -> None:
        name = message.output
        if name and self._outputs is not None and name not in self._outputs:
            known = f"it has {', '.join(self._outputs)}" if self._outputs else "spec.outputs names none"
            raise ValueError(f"produce({message.topic}): the function has no output {name!r}; {known}")
        if self._topics is not None and (name, message.topic) not in self._topics:
            raise ValueError(
                f"produce({message.topic}): spec.produceTopics doesn't have {place_name(message)}"
            )

    def on_produced(self, body: bytes) -> None:
        """A PRODUCED frame has come (link thread)."""
        ended = []
        with self._room:
            for said in decode_produced(body):
                one = self._open[said.number]
                self._open_bytes -= one.size_bytes
                if said.partition == WAITING:
                    one.size_bytes = 0  # the processor has it, and bounds by itself what waits
                else:
                    del self._open[said.number]
                    ended.append((one, said))
            self._room.notify_all()
        for one, said in ended:
            one.end(said)

    def abandon(self) -> None:
        """In a process that the handler has forked: its frames would go amid its parent's."""
        self._is_forked = True


def with_trace_headers(headers: Headers, source: Headers) -> Headers:
    """With those of the source that say which trace it is of, unless there are some already."""
    if any(name.lower() in _TRACE for name, _ in headers):
        return headers
    return (*headers, *((name, value) for name, value in source if name.lower() in _TRACE))


def encode_value(value: object) -> bytes | None:
    """Bytes as they are, text as UTF-8, None as none; all else as JSON. Raises TypeError, ValueError."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def header_pairs(headers: Any) -> Headers:
    """Of a mapping, or of pairs: names with bytes, text, or None."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((str(name), encode_value(value)) for name, value in pairs)
