"""Headers of a dead letter: which record it was, and why it failed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

Headers = list[tuple[str, bytes | None]]
"""A record's headers in order, as aiokafka has them. Names may come twice."""

TOPIC, PARTITION, OFFSET, TIMESTAMP = (
    f"headrace-source-{name}" for name in ("topic", "partition", "offset", "timestamp")
)
ERROR, ATTEMPTS, FUNCTION = (f"headrace-{name}" for name in ("error", "attempts", "function"))
FIRST_TIMESTAMP = "headrace-first-timestamp"
"""The first time of a record that was sent back, in ms since the epoch. It stays its own."""
RAW_NAME = "headrace-raw-header-name"
"""Bytes: the name of the header before it, where that is no UTF-8."""
NAMES = (TOPIC, PARTITION, OFFSET, TIMESTAMP, ERROR, ATTEMPTS, FUNCTION)

_NO_TIMESTAMP = -1  # Kafka's own way to say it
# A record's timestamp has 64 bits, with a sign; the largest has 19 digits.
_END_OF_TIME = 2**63
_TIME = re.compile(rb"[0-9]{1,19}")
_MAX_ERROR_BYTES = 2048
_CUT = b"\n...\n"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The source record of a dead letter, and why it is one.

    `timestamp` is in ms since the epoch, None where the record has none.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    error: str
    attempts: int
    function: str

    def headers(self) -> Headers:
        """Return the headers to append to the record's own. A long error keeps its first and last lines."""
        timestamp = _NO_TIMESTAMP if self.timestamp is None else self.timestamp
        texts = (self.topic, self.partition, self.offset, timestamp, self.error, self.attempts, self.function)
        pairs = zip(NAMES, (_encoded(str(text)) for text in texts), strict=True)
        return [(name, _cut(value) if name == ERROR else value) for name, value in pairs]


def with_writable_names(headers: Sequence[tuple[str, bytes | None]]) -> Headers:
    """Return the headers with names that clients can write, which are UTF-8.

    Another name is spelled out, and its bytes follow as a value behind its header.
    """
    written: Headers = []
    for name, value in headers:
        raw = name.encode(errors="surrogateescape")
        spelled = raw.decode(errors="backslashreplace")
        written.append((spelled, value))
        if spelled != name:
            written.append((RAW_NAME, raw))
    return written


def split_headers(headers: Sequence[tuple[str, bytes | None]]) -> tuple[Headers, Provenance | None]:
    """Return the record's own headers, and what was appended; None where a record is no dead letter.

    Of each name the last one counts: a dead letter that failed again has a set of each time, and loses one.
    """
    last = {name: at for at, (name, _) in enumerate(headers) if name in NAMES}
    texts = {name: (headers[at][1] or b"").decode(errors="replace") for name, at in last.items()}
    try:
        provenance = _read(texts)
    except (KeyError, ValueError):
        return list(headers), None
    return [pair for at, pair in enumerate(headers) if at not in last.values()], provenance


def split_first_timestamp(headers: Sequence[tuple[str, bytes | None]]) -> tuple[Headers, int | None]:
    """Return the headers without FIRST_TIMESTAMP, and its value; None where it says nothing."""
    said = [value or b"" for name, value in headers if name == FIRST_TIMESTAMP]
    if not said or _TIME.fullmatch(said[-1]) is None or int(said[-1]) >= _END_OF_TIME:
        return list(headers), None
    return [pair for pair in headers if pair[0] != FIRST_TIMESTAMP], int(said[-1])


def _read(texts: dict[str, str]) -> Provenance:
    timestamp = int(texts[TIMESTAMP])
    if timestamp >= _END_OF_TIME:
        raise ValueError("no record has that")
    return Provenance(
        topic=texts[TOPIC],
        partition=int(texts[PARTITION]),
        offset=int(texts[OFFSET]),
        timestamp=None if timestamp < 0 else timestamp,
        error=texts[ERROR],
        attempts=int(texts[ATTEMPTS]),
        function=texts[FUNCTION],
    )


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _cut(error: bytes) -> bytes:
    """Shorten an error to _MAX_ERROR_BYTES: a traceback's end says what happened, its beginning where."""
    if len(error) <= _MAX_ERROR_BYTES:
        return error
    half = (_MAX_ERROR_BYTES - len(_CUT)) // 2
    # A cut may lie inside a character: what is left of that goes.
    first, last = (part.decode(errors="ignore").encode() for part in (error[:half], error[-half:]))
    return first + _CUT + last
