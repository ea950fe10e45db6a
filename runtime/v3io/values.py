"""Typed values of items, as the web API writes them: `{"age": {"N": "7"}}`."""

import base64
from collections.abc import Mapping
from typing import Any

Attributes = Mapping[str, int | float | str | bytes | bool]


def encode_attributes(attributes: Attributes) -> dict[str, dict[str, Any]]:
    """For PutItem."""
    return {name: _encoded(value) for name, value in attributes.items()}


def decode_attributes(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Of what GetItem has answered. What is of no known type is left out."""
    found = {name: _decoded(typed) for name, typed in item.items()}
    return {name: value for name, value in found.items() if value is not None}


def _encoded(value: float | str | bytes | bool) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bytes):
        return {"B": base64.b64encode(value).decode()}
    return {"N": str(value)}


def _decoded(typed: Mapping[str, Any]) -> Any:
    match dict(typed):
        case {"N": number}:
            text = str(number)
            return int(text) if text.lstrip("-").isdecimal() else float(text)
        case {"S": text}:
            return str(text)
        case {"BOOL": flag}:
            return bool(flag)
        case {"B": data}:
            return base64.b64decode(data)
    return None
