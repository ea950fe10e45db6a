"""How a record is shown to people, and to programs."""

import base64
import json
from typing import Any

from rich.text import Text

from headrace.runtime.errors import printable
from headrace.runtime.kafka.client import Line


def cell(text: str) -> Text:
    """In a table: neither markup nor what moves a terminal."""
    return Text(printable(text))


def text_line(record: Any) -> str:
    """One line, whatever is in it."""
    key, value = (
        "-" if data is None else printable(data.decode(errors="backslashreplace"))
        for data in (record.key, record.value)
    )
    return f"{record.partition}/{record.offset}\t{key}\t{value}"


def json_line(record: Any) -> str:
    return json.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _readable(record.key),
            "value": _readable(record.value),
            "headers": [[name, _readable(value)] for name, value in record.headers],
        }
    )


def line_of_json(line: bytes) -> Line:
    """The record that `json_line` made it of, but for its topic and offset. Raises ValueError."""
    try:
        said = json.loads(line)
        return Line(
            _bytes(said["value"]),
            _bytes(said.get("key")),
            [(str(name), _bytes(value)) for name, value in said.get("headers", ())],
            _number(said.get("timestamp")),
            _number(said.get("partition")),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError("is no record as `headrace kafka consume --json` prints it") from None


def _bytes(said: Any) -> bytes | None:
    if said is None:
        return None
    return base64.b64decode(said["base64"], validate=True) if isinstance(said, dict) else said.encode()


def _number(said: Any) -> int | None:
    if said is not None and (type(said) is not int or said < 0):
        raise ValueError(said)
    return said


def _readable(data: bytes | None) -> str | dict[str, str] | None:
    """Text where it is UTF-8; else {"base64": ...}, which no text can be mistaken for."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
