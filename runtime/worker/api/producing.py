"""Messages that handlers produce, in a worker process: from any thread and any event loop."""

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
# One lock for all messages: futures are asked for seldom, and made at once.
_FUTURES_LOCK = threading.RLock()


class Confirmed(NamedTuple):
    """Partition and offset of a message that was written; the offset is -1 where the broker doesn't say."""

    partition: int
    offset: int


class ProduceError(Exception):
    """A message was not written, for good. Says why."""


class _Outcome(Future[Confirmed]):
    """The future of a message that nobody can take back: who gives up waiting for it cancels nothing."""

    def cancel(self) -> bool:
        """Refuse: the message is on its way."""
        return False


class PendingMessage:
    """A message that was produced. Await it, or call `result`, to learn where it is; or let it be.

    Raises ProduceError where it couldn't be written: then the record that it is of has failed, whatever its
    handler makes of that. Raises RuntimeError with exactlyOnce, where it isn't written before the handler has
    returned.
    """

    __slots__ = ("_future", "_goes_with_commit", "_produced", "size_bytes")

    def __init__(self, size_bytes: int, *, goes_with_commit: bool = False) -> None:
        self.size_bytes = size_bytes
        self._goes_with_commit = goes_with_commit
        self._produced: ProduceResult | None = None
        self._future: Future[Confirmed] | None = None  # made for who asks: for most messages nobody does

    def __await__(self) -> Generator[None, None, Confirmed]:
        self._check()
        return asyncio.wrap_future(self._result_future()).__await__()

    def result(self, timeout_seconds: float | None = None) -> Confirmed:
        """Block until the message is written; return where it is. Raises TimeoutError, and as awaiting it."""
        self._check()
        return self._result_future().result(timeout_seconds)

    def _check(self) -> None:
        if self._goes_with_commit:
            raise RuntimeError(
                "with exactlyOnce a message is written with the commit of its record, after the handler has "
                "returned: there is nothing to wait for"
            )

    def end(self, outcome: ProduceResult) -> None:
        """Take what has become of the message (link thread)."""
        with _FUTURES_LOCK:
            self._produced = outcome
            future = self._future
        if future is not None:
            _tell(future, outcome)

    def _result_future(self) -> Future[Confirmed]:
        with _FUTURES_LOCK:
            if self._future is None:
                self._future = _Outcome()
                if self._produced is not None:
                    _tell(self._future, self._produced)
            return self._future


def _tell(future: Future[Confirmed], outcome: ProduceResult) -> None:
    if outcome.failure:
        future.set_exception(ProduceError(outcome.failure))
    else:
        future.set_result(Confirmed(outcome.partition, outcome.offset))


_Item: TypeAlias = tuple[int, int, Message, PendingMessage]
"""Lane and offset of the record that a message is of, and the message."""


class WorkerProducer:
    """Sends messages to the processor, and bounds by bytes those that no broker has confirmed yet."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        current_record: Callable[[], tuple[int, int, WireRecord | None]],
        outputs: Sequence[str] | None = (),
        topics: Iterable[Sequence[str]] | None = None,
        *,
        is_transactional: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """`current_record` returns lane and offset of the record that the caller works for, and itself.

        The record itself is None in a batch, and where there is none. `outputs` are all that a message may
        name, `topics`, each with its output, all that it may go to; None: any. `is_transactional` says
        whether messages of a lane's records go with a commit.
        """
        self._trace_headers: Callable[[], Headers] = lambda: ()
        self._outputs = outputs
        self._topics = None if topics is None else frozenset(map(tuple, topics))
        self._is_transactional = is_transactional
        self._send = send
        self._send_in_turn = SerialWriter(self._send_each)
        self._current_record = current_record
        self._bytes_freed = threading.Condition()
        self._open: dict[int, PendingMessage] = {}
        self._open_bytes = 0
        self._next = 0
        self._is_forked = False

    def trace_with(self, trace_headers: Callable[[], Headers]) -> None:
        """Have messages carry the headers of the span that is current where they are produced, if one is."""
        self._trace_headers = trace_headers

    def produce(self, message: Message) -> PendingMessage:
        """Send a message to the processor; blocks only where too much isn't confirmed yet.

        Raises RuntimeError in a process that the handler has forked, ValueError for an output or a topic that
        it may not go to, and for what can't be a message.
        """
        self._check_place(message)
        if self._is_forked:
            raise RuntimeError(f"produce({message.topic}): in a process that the handler has forked")
        lane_id, offset, record = self._current_record()
        origin = self._trace_headers() or (record.headers if record is not None else ())
        if origin:
            message = message._replace(headers=with_trace_headers(message.headers, origin))
        goes_with_commit = not message.output and self._is_transactional(lane_id)
        pending = PendingMessage(message.size_bytes, goes_with_commit=goes_with_commit)
        self._send_in_turn((lane_id, offset, message, pending))
        return pending

    def _send_each(self, waiting: deque[_Item]) -> None:
        """Send what waits, in turn: the processor takes no number before the one below it."""
        while waiting:
            lane_id, offset, message, pending = waiting.popleft()
            try:
                data = encode_produce(ProduceRequest(self._next, lane_id, offset, message))
            except (struct.error, UnicodeEncodeError) as error:
                raise ValueError(f"produce({message.topic!r}): no message can say that: {error}") from None
            with self._bytes_freed:
                # Blocks whoever produces, until the processor has confirmed enough of what is under way.
                # A message that is larger than the bound goes alone, once nothing else is under way.
                while self._open_bytes and self._open_bytes + pending.size_bytes > PRODUCE_WINDOW_BYTES:
                    self._bytes_freed.wait()
                self._open[self._next] = pending
                self._open_bytes += pending.size_bytes
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
        """Take what has become of messages: a PRODUCED frame has come (link thread)."""
        ended = []
        with self._bytes_freed:
            for outcome in decode_produced(body):
                pending = self._open[outcome.number]
                self._open_bytes -= pending.size_bytes
                if outcome.partition == WAITING:
                    pending.size_bytes = 0  # the processor has it, and bounds by itself what waits
                else:
                    del self._open[outcome.number]
                    ended.append((pending, outcome))
            self._bytes_freed.notify_all()
        for pending, outcome in ended:
            pending.end(outcome)

    def abandon(self) -> None:
        """Refuse messages, in a process that the handler has forked: frames would go amid its parent's."""
        self._is_forked = True


def with_trace_headers(headers: Headers, source: Headers) -> Headers:
    """Return `headers` with those of `source` that name a trace, unless they name one already."""
    if any(name.lower() in _TRACE for name, _ in headers):
        return headers
    return (*headers, *((name, value) for name, value in source if name.lower() in _TRACE))


def encode_value(value: object) -> bytes | None:
    """Return bytes as they are, text as UTF-8, None as None, all else as JSON. TypeError, ValueError."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def header_pairs(headers: Any) -> Headers:
    """Return the headers that a mapping, or pairs, of names and bytes, text, or None stand for."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((str(name), encode_value(value)) for name, value in pairs)
