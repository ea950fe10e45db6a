"""Checks of what brokers answer, on every connection of this process: not too large, and readable.

aiokafka takes whatever the first four bytes announce. Of what it can't read its log gets a traceback, and of
lists that are null, and of partitions that it has not asked for, whoever waits for the answer.
"""

import logging
import struct
from asyncio import StreamReader
from collections.abc import Callable, Collection
from io import BytesIO
from typing import Any

from aiokafka.protocol import fetch
from aiokafka.protocol.types import Array, CompactArray, Int32, Schema, UnsignedVarInt32

from headrace.runtime.kafka.not_a_broker import MAX_BYTES, UnreadableAnswerError, too_large

logger = logging.getLogger(__name__)

# Kafka's numbers of Fetch, ListOffsets and OffsetCommit.
_FETCH, _LOG_ENDS, _COMMIT = 1, 2, 8
_OF_PARTITIONS = {_FETCH, _LOG_ENDS, _COMMIT}
_OF_EACH = {_LOG_ENDS, _COMMIT}  # a commit that isn't answered would be taken for one that is safe
# Addresses come from what brokers answer, so nothing else bounds how many there are.
_MAX_WARNINGS = 1000
_DECODE_ERRORS = (ValueError, TypeError, struct.error, MemoryError, OverflowError)


class BoundedReader(StreamReader):
    """A connection's reader that refuses answers of more than MAX_BYTES."""

    async def readexactly(self, n: int) -> bytes:
        """Read `n` bytes. Raises AnswerTooLargeError where no answer is that long."""
        if not 0 <= n <= MAX_BYTES:
            raise too_large(n)
        return await super().readexactly(n)


class AnswerDecoder:
    """Decoder of the answer to one request, in place of the response class that aiokafka would use."""

    def __init__(self, request: Any, on_read: Callable[[Any], None]) -> None:
        self._request, self._kind, self._on_read = request, type(request).RESPONSE_TYPE, on_read

    def decode(self, data: BytesIO) -> Any:
        """Return the decoded answer. Raises UnreadableAnswerError."""
        data.is_answer = True  # type: ignore[attr-defined]  # read by _items: requests have such lists
        try:
            answer = self._kind.decode(data)
        except _DECODE_ERRORS as error:
            raise UnreadableAnswerError(f"gives an unreadable {self._name} ({_line(error)})") from error
        if self._request.API_KEY in _OF_PARTITIONS and not self._is_about(
            answer.topics, self._request.topics
        ):
            raise UnreadableAnswerError(f"gives a {self._name} about other partitions than it was asked for")
        self._on_read(answer)
        return answer

    def _is_about(self, answered: Collection[Any], requested: Collection[Any]) -> bool:
        """Whether no partition is answered that wasn't asked for, and none twice."""
        if _places(answered) == _places(requested):  # as nearly all are
            return True
        found = [(topic, row[0]) for topic, rows, *_ in answered for row in rows]
        wanted = {(topic, row[0]) for topic, rows, *_ in requested for row in rows}
        is_enough = len(found) == len(wanted) or self._request.API_KEY not in _OF_EACH
        return is_enough and len(found) == len(set(found)) and wanted.issuperset(found)

    @property
    def _name(self) -> str:
        return str(self._kind.__name__).strip("_")


def _places(topics: Collection[Any]) -> list[Any]:
    return [(topic, [row[0] for row in rows]) for topic, rows, *_ in topics]


class AnswerWarnings:
    """Log lines about unreadable answers: one for each address, until it is something else."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def warn(self, error: UnreadableAnswerError) -> None:
        """Log the error by which a connection is closed."""
        if self._lines.get(error.where) == error.what:
            return
        if len(self._lines) >= _MAX_WARNINGS:
            self._lines.clear()
        self._lines[error.where] = error.what
        logger.warning("%s; that connection is closed, and what was asked is asked again", error)


def refuse_nulls() -> None:
    """Have aiokafka refuse lists that are null where the protocol has none, and lists of negative length."""
    # Requests have lists that are null, with a meaning: those are only refused in answers.
    Array.decode, CompactArray.decode = _array, _compact_array
    for kind in vars(fetch).values():
        if isinstance(schema := getattr(kind, "SCHEMA", None), Schema):
            _mark(schema, "aborted_transactions")


def _mark(schema: Schema, name: str) -> None:
    for known, kind in zip(schema.names, schema.fields, strict=True):
        if known == name:
            # On the type itself: `_array` is given that and the bytes, nothing of the schema around it.
            kind.may_be_null = True
        inner = getattr(kind, "array_of", kind)
        if isinstance(inner, Schema):
            _mark(inner, name)


def _array(kind: Any, data: BytesIO) -> Any:
    count = Int32.decode(data)
    if count < 0:
        return _null(kind, count, data)
    decode = kind.array_of.decode
    return [decode(data) for _ in range(count)]  # each takes a byte at least: no more than its data has


def _compact_array(kind: Any, data: BytesIO) -> Any:
    count = UnsignedVarInt32.decode(data) - 1
    if count < 0:
        return _null(kind, count, data)
    decode = kind.array_of.decode
    return [decode(data) for _ in range(count)]


def _null(kind: Any, count: int, data: BytesIO) -> None:
    may_be_null = getattr(kind, "may_be_null", False) or not getattr(data, "is_answer", False)
    if count < -1 or not may_be_null:
        raise ValueError("a list of less than nothing" if count < -1 else "a list that is null")


def _line(error: Exception) -> str:
    """Return why an answer is unreadable, without its bytes: they may be many, and of a record."""
    said = str(error) if isinstance(error, ValueError) and not isinstance(error, UnicodeError) else ""
    return said if said and "struct" not in said and "\n" not in said else "it is cut off, or no such answer"
