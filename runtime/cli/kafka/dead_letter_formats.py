"""How a dead letter is shown to people, and to programs."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from headrace.runtime.cli.records.formats import readable
from headrace.runtime.errors import printable
from headrace.runtime.kafka.dead_letter_reader import DeadLetter
from headrace.runtime.partitions.offsets.failure_text import in_one_line

_HEX_WIDTH = 32


def _letter_json(letter: DeadLetter) -> str:
    """Timestamps in ms since the epoch; key, body and headers as `headrace kafka consume --json` has them."""
    record, source = letter.record, letter.provenance
    line: dict[str, Any] = {"partition": record.partition, "offset": record.offset}
    line |= {"timestamp": record.timestamp, "key": readable(record.key), "body": readable(record.value)}
    line["headers"] = [[name, readable(value)] for name, value in letter.headers]
    return json.dumps(line | {"provenance": source and asdict(source)})


def _letter_row(letter: DeadLetter) -> tuple[str, str, str, str, str]:
    """Place, time, source, attempts, the line of the error that names it."""
    source = letter.provenance
    when = _time(letter.record.timestamp)
    if source is None:
        return letter.place, when, "-", "-", "(it doesn't say where it comes from)"
    origin = f"{source.topic}/{source.partition}/{source.offset}"
    return letter.place, when, printable(origin), str(source.attempts), printable(in_one_line(source.error))


def _letter_lines(letter: DeadLetter) -> Iterator[str]:
    """All lines that there are to one record."""
    record, source = letter.record, letter.provenance
    yield f"record    {letter.place}"
    yield f"time      {_time(record.timestamp)}"
    if source is not None:
        yield f"source    {printable(source.topic)}/{source.partition}/{source.offset}"
        yield f"function  {printable(source.function)}"
        yield f"attempts  {source.attempts}"
        yield "error:"
        yield from (f"    {printable(line)}" for line in source.error.splitlines())
    for name, value in letter.headers:
        yield from _block(f"header {printable(name)}", value)
    yield from _block("key", record.key)
    yield from _block("body", record.value)


def _block(title: str, data: bytes | None) -> Iterator[str]:
    """Text where it is some, else hex."""
    if data is None:
        yield f"{title}: none"
        return
    yield f"{title}: {len(data)} bytes"
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        lines = []
    if not all(line.replace("\t", " ").isprintable() for line in lines) or (data and not lines):
        lines = [data[at : at + _HEX_WIDTH].hex(" ", 2) for at in range(0, len(data), _HEX_WIDTH)]
    yield from (f"    {line}" for line in lines)


def _time(timestamp: int) -> str:
    if timestamp < 0:
        return "-"
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(" ", "milliseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):  # producers may write any number
        return f"{timestamp} ms"
