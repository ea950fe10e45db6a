"""What a member says to its coordinator, and what that answers. No I/O."""

from dataclasses import dataclass
from typing import TypeAlias

JOIN, LEAVE, LEAVE_FOR_NOW = 0, -1, -2
"""Epochs that ask for something. The last one is a static member's: its partitions wait for it."""
TopicIdPartition: TypeAlias = tuple[bytes, int]
"""A topic's id, and the partition's number."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """None is: as the coordinator knows it. `is_full` says again what never changes."""

    epoch: int
    topics: frozenset[str] | None = None
    owned: frozenset[TopicIdPartition] | None = None
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """`assigned` None is: as it was said last."""

    error_code: int
    message: str
    epoch: int
    interval_seconds: float
    assigned: frozenset[TopicIdPartition] | None
