"""How a trigger's records are handed out, acked and failed: what its dispatcher goes by."""

from dataclasses import dataclass, field
from enum import Enum

from headrace.runtime.config.failure import FailurePolicy


class AckMode(Enum):
    """`explicitAckMode`: whether returning acks, and whether `explicit_ack` does."""

    DISABLE = "disable"
    ENABLE = "enable"
    EXPLICIT_ONLY = "explicitOnly"

    @property
    def is_explicit(self) -> bool:
        """Whether `explicit_ack` may be called."""
        return self is not AckMode.DISABLE


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """`batch`: at most `size` records in one call, the first of them waiting at most `timeout_seconds`."""

    size: int
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """The defaults are those of a function.yaml that says nothing."""

    ack_mode: AckMode = AckMode.DISABLE
    is_cumulative: bool = False
    """An explicit ack settles all offsets up to its own."""
    ack_window_size: int = 0
    late_ack_seconds: float = 0.0
    """At a rebalance: how long to wait for acks after the handlers have ended."""
    failure: FailurePolicy = field(default_factory=FailurePolicy)
    batch: BatchPolicy | None = None
    decoder: str = ""
    """`module:function` for batches that come undecoded; empty where all records come decoded."""
    is_ranges: bool = False
    """What a batch holds is ranges of offsets, of records that nobody fetched."""
    event_timeout_seconds: float | None = None
    memory_limit_bytes: int | None = None
    fetch_max_bytes: int | None = None
    """`fetchMax`: larger records fail without being delivered."""
