"""How a record is shown to people, and to programs."""

import base64
import json
from typing import Any

from headrace.runtime.errors import printable
from headrace.runtime.kafka.client import RecordToSend


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
            "key": readable(record.key),
            "value": readable(record.value),
            "headers": [[name, readable(value)] for name, value in record.headers],
        }
    )


def line_of_json(line: bytes) -> RecordToSend:
    """The record that `json_line`, or that of a dead letter, made it of: not its topic and offset.

    Raises ValueError.
    """
    try:
        said = json.loads(line)
        return RecordToSend(
            _bytes(said["value"] if "value" in said else said["body"]),
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


def readable(data: bytes | None) -> str | dict[str, str] | None:
    """Text where it is UTF-8; else {"base64": ...}, which no text can be mistaken for."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
