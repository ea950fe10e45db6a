"""JSON that every database takes."""

import json
import math
from collections.abc import Iterator
from typing import Any


def json_of(document: Any) -> str | None:
    """Of dicts, lists, strings and numbers. None where a string in it is one that no database holds."""
    try:
        text = json.dumps(document, allow_nan=False)
    except ValueError:
        text = json.dumps(_spelled(document))
    return text if "\\u" not in text or all(map(is_storable, _strings(document))) else None


def is_storable(text: str) -> bool:
    """PostgreSQL has no zero character, and none has half a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _strings(document: Any) -> Iterator[str]:
    """All that stand in it, names too."""
    left = [document]
    while left:
        match left.pop():
            case str(text):
                yield text
            case dict(members):
                yield from members
                left.extend(members.values())
            case list(elements):
                left.extend(elements)


def _spelled(document: Any) -> Any:
    """With what JSON has no number for as protobuf's JSON writes it: "NaN", "Infinity", "-Infinity"."""
    match document:
        case float(number) if not math.isfinite(number):
            return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        case dict(members):
            return {name: _spelled(value) for name, value in members.items()}
        case list(elements):
            return [_spelled(element) for element in elements]
    return document
