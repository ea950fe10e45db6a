"""Records that a test of a handler gives it, and what the test sees of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headrace.runtime.wire.produce import Message
from headrace.runtime.wire.records import Headers

Partition: TypeAlias = tuple[str, int]
"""Topic and number of a partition."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic. Without an offset it follows the one before it in its partition, or is the first.

    `body` and `key` are bytes, `headers` pairs of a name and bytes. `timestamp_ms` counts from the epoch.
    `attempt` is above 1 where earlier deliveries have failed.
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
    """A range of offsets as one event, as with `delivery: ranges`.

    It has the offsets from `first_offset` to `offset`, both included.
    """

    first_offset: int
    offset: int
    topic: str = "topic"
    partition: int = 0
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The fate of one record, or range.

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
    """A line that `context.logger` or Python's logging was told.

    `level` is the name in lower case, as `info`. `values` are those of `info_with`, and of `extra`.
    """

    level: str
    message: str
    values: Mapping[str, Any]
    logger: str = ""
    """Name of the logger, empty for `context.logger` and the root."""
    error: str = ""
    """Traceback that was logged with the line."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Results of `run_handler`. `committed` is the offset that the group would commit, by partition."""

    outcomes: Sequence[Outcome]
    committed: Mapping[Partition, int]
    logs: Sequence[LogLine]
    context: Any
    produced: Sequence[Message] = ()
    """Messages that `context.produce` was given, or `result_topic` has made of results, in order."""
    handler_seconds: float = 0.0
    """Time in the handler, of all calls together."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Values of `context.metrics`, as a scrape names them: `orders_total{country="de"}`."""

    @property
    def results(self) -> list[Any]:
        """Result of each record, in order."""
        return [outcome.result for outcome in self.outcomes]

    @property
    def failures(self) -> list[str]:
        """Reason of each record that failed, in order."""
        return [outcome.failure for outcome in self.outcomes if outcome.failure is not None]

    @property
    def acked(self) -> list[int]:
        """Offset of each record that is acked, in order."""
        return [outcome.offset for outcome in self.outcomes if outcome.is_acked]
