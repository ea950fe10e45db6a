"""JSON and text that both SQLite and PostgreSQL can store."""

import json
import math
from collections.abc import Iterator
from typing import Any


def json_of(document: Any) -> str | None:
    """Return dicts, lists, strings and numbers as JSON; None if a string among them can't be stored."""
    try:
        # Tried without a copy first: most documents have no NaN and no infinity.
        text = json.dumps(document, allow_nan=False)
    except ValueError:
        text = json.dumps(_non_finite_as_text(document))
    # json.dumps escapes control characters and all that is beyond ASCII. Where it has escaped nothing, no
    # string has to be looked at.
    return text if "\\u" not in text or all(map(is_storable, _strings(document))) else None


def is_storable(text: str) -> bool:
    """Whether a database can store `text`: PostgreSQL has no zero character, and none a lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _strings(document: Any) -> Iterator[str]:
    """Yield all strings in the document, names of members too."""
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


def _non_finite_as_text(document: Any) -> Any:
    """Return the document with NaN and infinities as text, as protobuf's JSON spells them."""
    match document:
        case float(number) if not math.isfinite(number):
            return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        case dict(members):
            return {name: _non_finite_as_text(value) for name, value in members.items()}
        case list(elements):
            return [_non_finite_as_text(element) for element in elements]
    return document
