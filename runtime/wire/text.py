"""How much of a text goes from a worker to the log: a failure's, or a line's. Both ends see to it."""

MAX_REASON = 16_384
MAX_LINE = 65_536
_NOTE = 64  # more than what is said of the middle


def bounded(text: str, most: int) -> str:
    """`text`, or its two ends: no more than `most` characters."""
    if len(text) <= most:
        return text
    half = (most - _NOTE) // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
