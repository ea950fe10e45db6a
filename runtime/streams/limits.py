"""How much of a stream is held, as settings say it and an assignment keeps to it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is held."""

    unsettled: int
    """Records of one partition that may be handed out, or decoded, and not settled."""
    name: str
    """Of the setting that says so."""
    max_buffered_bytes: int
