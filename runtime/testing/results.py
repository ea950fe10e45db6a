"""What a test of a handler gives it, and what it sees of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headrace.runtime.wire.produce import Message
from headrace.runtime.wire.records import Headers

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic. Without an offset it follows the one before it in its partition, or is the first.

    `timestamp_ms` counts from the epoch. `attempt` is above 1 where earlier deliveries have failed.
    """

    body: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    topic: str = "topic"
    partition: int = 0
    offset: int | None = None
    timestamp_ms: int | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Range:
    """With `delivery: ranges`: the offsets from `first_offset` to `offset`, both included, as one event."""

    first_offset: int
    offset: int
    topic: str = "topic"
    partition: int = 0
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one record, or range.

    `result` is what the last call that it was in returned, None where that raised. `failure` says why the
    runtime takes the record for failed (a traceback, a status, no response in a batch); None where it went
    well in the end. `is_acked`: it would not be delivered again, by its return or explicitly, as
    explicitAckMode says. `attempt` is the number of its last delivery. `produced` is what was produced for
    it, in order, by all of them: in a batch, all that the call has produced.
    """

    topic: str
    partition: int
    offset: int
    result: Any
    failure: str | None
    is_acked: bool
    attempt: int = 1
    produced: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class LogLine:
    """What `context.logger` or Python's logging was told. `values`: of `info_with`, and of `extra`."""

    level: str
    message: str
    values: Mapping[str, Any]
    logger: str = ""
    """Its name, empty for `context.logger` and the root."""
    error: str = ""
    """The traceback that was logged with it."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What `run_handler` saw. `committed` is the offset that the group would commit, by partition."""

    outcomes: Sequence[Outcome]
    committed: Mapping[Partition, int]
    logs: Sequence[LogLine]
    context: Any
    produced: Sequence[Message] = ()
    """What `context.produce` was given, or `result_topic` has made of results, in order."""
    handler_seconds: float = 0.0
    """In the handler, by all calls."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What `context.metrics` was told, as a scrape names it: `orders_total{country="de"}`."""

    @property
    def results(self) -> list[Any]:
        """Of each record."""
        return [outcome.result for outcome in self.outcomes]

    @property
    def failures(self) -> list[str]:
        """Of the records that failed."""
        return [outcome.failure for outcome in self.outcomes if outcome.failure is not None]

    @property
    def acked(self) -> list[int]:
        """The offsets of the records that are acked."""
        return [outcome.offset for outcome in self.outcomes if outcome.is_acked]
