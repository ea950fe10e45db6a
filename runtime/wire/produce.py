"""Messages that handlers produce, and what became of them: PRODUCE and PRODUCED frames."""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from headrace.runtime.wire.framing import MAX_REASON, FrameKind, ProtocolViolationError, bounded, frame
from headrace.runtime.wire.records import Headers, decode_headers, encode_headers

PRODUCE_WINDOW_BYTES = 1 << 20
"""Bytes that one worker may have produced and that aren't confirmed, but for one message that is larger."""
NO_LANE = 2**32 - 1
"""Lane of a message that is of no record."""
_NONE = -1
# Not a partition: those are at least 0, and -1 is none.
WAITING = -2
"""Partition in a PRODUCED of a message that can't be written now: it waits, beyond its worker's window."""

# Number, lane and offset, partition, timestamp, then lengths: output, topic, key, value.
_PRODUCE = struct.Struct("<QIqiqBHii")
_PRODUCED = struct.Struct("<QiqI")


class Message(NamedTuple):
    """A record for some topic. `output` names a cluster, empty is the trigger's own; None lets it choose.

    `timestamp` in ms since the epoch.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None
    output: str = ""

    @property
    def size_bytes(self) -> int:
        """Size that counts where bytes are limited: key and value, and a little for the rest."""
        return len(self.value or b"") + len(self.key or b"") + 100


def place_name(message: Message) -> str:
    """Return where a message goes, spelled like an item of `spec.produceTopics`."""
    return f"{message.output}/{message.topic}" if message.output else message.topic


class DeliveryReport(NamedTuple):
    """The place of a produced message, or why it has none. `offset` is -1 where the broker doesn't say."""

    partition: int = -1
    offset: int = -1
    failure: str = ""


def not_yet_written(message: Message) -> DeliveryReport:
    """Return the report of a message that waits, as nothing can be written where it goes.

    Others may follow.
    """
    return DeliveryReport(WAITING, message.size_bytes)


DeliveryCallback: TypeAlias = Callable[[DeliveryReport], None]
Outgoing: TypeAlias = tuple[Message, DeliveryCallback]


class ProduceRequest(NamedTuple):
    """The `number`th message of a worker process, from 0. `lane_id` and `offset`: the record that it is of.

    Of a batch that is the first one. NO_LANE: of none.
    """

    number: int
    lane_id: int
    offset: int
    message: Message


RawProduceResult: TypeAlias = tuple[int, int, int, str]
"""A ProduceResult, or a tuple like it."""


class ProduceResult(NamedTuple):
    """Result of producing a message: where it is, or why it is nowhere, as far as is known."""

    number: int
    partition: int = -1
    offset: int = -1
    """-1 where the broker doesn't say."""
    failure: str = ""


def encode_produce(said: ProduceRequest) -> bytes:
    """Return a PRODUCE frame."""
    it = said.message
    output, topic = it.output.encode(), it.topic.encode()
    head = _PRODUCE.pack(
        said.number,
        said.lane_id,
        said.offset,
        _NONE if it.partition is None else it.partition,
        _NONE if it.timestamp is None else it.timestamp,
        len(output),
        len(topic),
        _NONE if it.key is None else len(it.key),
        _NONE if it.value is None else len(it.value),
    )
    headers = encode_headers(it.headers) if it.headers else b""
    return frame(FrameKind.PRODUCE, head, output, topic, it.key or b"", it.value or b"", headers)


def decode_produce(body: bytes) -> ProduceRequest:
    """Return what `encode_produce` was given. Raises ProtocolViolationError where lengths can't be."""
    number, lane_id, offset, partition, timestamp, output, topic, key, value = _PRODUCE.unpack_from(body)
    topic_at = _PRODUCE.size + output
    key_at = topic_at + topic
    value_at = key_at + max(key, 0)
    end = value_at + max(value, 0)
    # A slice beyond the end would be short in silence.
    if key < _NONE or value < _NONE or end > len(body):
        raise ProtocolViolationError("a message whose lengths can't be")
    message = Message(
        body[topic_at:key_at].decode(),
        None if value == _NONE else body[value_at:end],
        None if key == _NONE else body[key_at:value_at],
        tuple(decode_headers(body[end:])) if end < len(body) else (),
        None if partition == _NONE else partition,
        None if timestamp == _NONE else timestamp,
        body[_PRODUCE.size : topic_at].decode(),
    )
    return ProduceRequest(number, lane_id, offset, message)


def encode_produced(results: Iterable[RawProduceResult]) -> bytes:
    """Return a PRODUCED frame: the results of some messages, in any order."""
    parts = []
    for number, partition, offset, failure in results:
        reason = bounded(failure, MAX_REASON).encode() if failure else b""
        parts.append(_PRODUCED.pack(number, partition, offset, len(reason)) + reason)
    return frame(FrameKind.PRODUCED, *parts)


def decode_produced(body: bytes) -> Iterator[ProduceResult]:
    """Yield what `encode_produced` was given."""
    at = 0
    while at < len(body):
        number, partition, offset, length = _PRODUCED.unpack_from(body, at)
        at += _PRODUCED.size + length
        yield ProduceResult(number, partition, offset, body[at - length : at].decode())
