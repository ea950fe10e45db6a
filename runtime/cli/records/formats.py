"""Text and JSON forms of a record, for people and for programs."""

import base64
import json
from typing import Any

from headrace.runtime.errors import printable
from headrace.runtime.kafka.client import RecordToSend


def text_line(record: Any) -> str:
    """Return a record as one line for people, whatever is in it."""
    # To Kafka no key is another thing than an empty one: only the first is a dash.
    key, value = (
        "-" if data is None else printable(data.decode(errors="backslashreplace"))
        for data in (record.key, record.value)
    )
    return f"{record.partition}/{record.offset}\t{key}\t{value}"


def json_line(record: Any) -> str:
    """Return a record as one line of JSON for programs."""
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
    """Parse a line of `json_line`, or of a dead letter's JSON, but for its topic and offset.

    Raises ValueError.
    """
    try:
        fields = json.loads(line)
        return RecordToSend(
            _bytes(fields["value"] if "value" in fields else fields["body"]),  # a dead letter has a body
            _bytes(fields.get("key")),
            [(str(name), _bytes(value)) for name, value in fields.get("headers", ())],
            _number(fields.get("timestamp")),
            _number(fields.get("partition")),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError("is no record as `headrace kafka consume --json` prints it") from None


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    # Without validate, what is no base64 would be skipped over, and other bytes sent.
    return base64.b64decode(value["base64"], validate=True) if isinstance(value, dict) else value.encode()


def _number(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 0):  # true is an int for isinstance
        raise ValueError(value)
    return value


def readable(data: bytes | None) -> str | dict[str, str] | None:
    """Return text where it is UTF-8; else {"base64": ...}, which no text can be mistaken for."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
