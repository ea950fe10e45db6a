"""Events as ready-made functions see them."""

from dataclasses import dataclass, field
from datetime import datetime

NOON = datetime(2026, 1, 2, 12, 0, 0, 123000)  # noqa: DTZ001  # naive UTC, as events have it


@dataclass
class Event:
    offset: int
    body: bytes | None = b"{}"
    shard_id: int = 0
    topic: str = "orders"
    key: bytes | None = None
    header_list: list[tuple[str, bytes | None]] = field(default_factory=list)
    timestamp: datetime | None = NOON


def events(first: int, end: int, partition: int = 0) -> list[Event]:
    return [Event(offset, b'{"n": %d}' % offset, partition) for offset in range(first, end)]
