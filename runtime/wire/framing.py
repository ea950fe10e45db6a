"""How much of a text goes from a worker to the log: a failure's, or a line's. Both ends see to it."""

import json
from collections.abc import Mapping

MAX_REASON = 16_384


MAX_LINE = 65_536


_NOTE = 64  # more than what is said of the middle


def bounded(text: str, most: int) -> str:
    """`text`, or its two ends: no more than `most` characters."""
    if len(text) <= most:
        return text
    half = (most - _NOTE) // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def bounded_values(values: Mapping[str, object]) -> dict[str, object]:
    """What is bound to a line, the long ones as text and cut: as many as fit, where all don't.

    No more than MAX_LINE characters, and a word on what is left out. Values are as JSON has them.
    """
    kept: dict[str, object] = {}
    room = MAX_LINE
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        room -= len(name) + min(len(text), MAX_REASON)
        if room < 0:
            return kept | {"left_out": f"{len(values) - len(kept)} values"}
        kept[name] = value if len(text) <= MAX_REASON else bounded(text, MAX_REASON)
    return kept
