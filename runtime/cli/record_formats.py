"""How a record is shown to people, and to programs."""

import base64
import json
from typing import Any

from rich.text import Text

from headrace.runtime.errors import printable


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


def _readable(data: bytes | None) -> str | dict[str, str] | None:
    """Text where it is UTF-8; else {"base64": ...}, which no text can be mistaken for."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
