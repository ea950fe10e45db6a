"""Policies of delivery: how a trigger's records are handed out, acked, batched and retried."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

MAX_EVENTS = 100_000  # in one call of a handler; ranges of offsets may be more


Then = Literal["halt", "deadLetter", "skip"]


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """`onFailure`: deliveries in all (0: for ever), the wait between them, and what follows the last one.

    The wait doubles with each attempt up to a maximum, less up to a fifth of it: jitter.
    """

    max_attempts: int = 4
    backoff_seconds: float = 1.0
    max_backoff_seconds: float = 30.0
    then: Then | Literal["report"] = "halt"
    """Action after the last attempt. `report`: the lane is told, no more; for lanes without a partition."""
    dead_letter_topic: str = ""

    def is_spent(self, attempts: int) -> bool:
        """Whether so many failed deliveries are all that a record gets."""
        return 0 < self.max_attempts <= attempts

    def wait_seconds(self, attempts: int) -> float:
        """Return how long to wait after so many failed deliveries."""
        doublings = min(attempts - 1, 30)  # more would overflow, and is beyond any maximum
        wait: float = min(self.backoff_seconds * 2**doublings, self.max_backoff_seconds)
        jitter: float = random.uniform(0.8, 1.0)  # noqa: S311  # spreads retries, hides nothing
        return wait * jitter


class AckMode(Enum):
    """`explicitAckMode`: whether a handler's return acks its event, and whether `explicit_ack` does."""

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
    """How a trigger's records are handed out, acked and failed: what its dispatcher goes by.

    The defaults are those of a function.yaml that leaves all settings out.
    """

    ack_mode: AckMode = AckMode.DISABLE
    explicit_ack_semantics: Literal["auto", "individual", "cumulative"] = "auto"
    """cumulative: an explicit ack settles all offsets up to its own; auto: mlrun's functions have that alone.
    """
    ack_window_size: int = 0
    topic_aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names by which an explicit ack may call a topic of the trigger, with the right one of each."""
    ack_deadline_seconds: float | None = None
    """A record that isn't acked so long after its handler has ended has failed; None: there is no limit."""
    late_ack_seconds: float = 0.0
    """How long a rebalance waits for acks after the handlers have ended."""
    worker_allocation_mode: Literal["pool", "static"] = "pool"
    failure: FailurePolicy = field(default_factory=FailurePolicy)
    batch: BatchPolicy | None = None
    ordering: Literal["partition", "key", "none"] = "partition"
    """Order in a partition: of all its records, of the records of each key, or none."""
    max_concurrency: int = 1
    """How many records of a worker an async handler is in at once; 1 with batches."""
    decoder: str = ""
    """`module:function` for batches that come undecoded; empty where all records come decoded."""
    decoder_options: Mapping[str, int] = field(default_factory=dict)
    """Further arguments of the decoder, by name."""
    event: str = ""
    """`module:Class` of what handlers get; empty for a stream's records."""
    wants_replies: bool = False
    """Whether somebody waits for what the handler returns."""
    result_topic: str = ""
    """Topic for what handlers return; empty where that isn't produced."""
    produce_topics: frozenset[tuple[str, str]] | None = None
    """The only places for what handlers produce, by output, empty for the brokers, and topic; None: any."""
    exactly_once: bool = False
    """Whether what handlers produce is written in one transaction with the commit of their records."""
    is_ranges: bool = False
    """Whether a batch holds ranges of offsets, of records that nobody fetched."""
    source_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options by which Spark reads such ranges, passwords included."""
    max_processing_time_seconds: float = 300.0
    event_timeout_seconds: float | None = None
    memory_limit_bytes: int | None = None
    fetch_max_bytes: int | None = None
    """`fetchMax`: larger records fail without being delivered."""

    @property
    def is_cumulative(self) -> bool:
        """Whether an explicit ack settles all offsets up to its own."""
        return self.explicit_ack_semantics == "cumulative"
