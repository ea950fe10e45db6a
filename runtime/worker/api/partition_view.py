"""A partition as a worker sees it: which of its records have come, and which of those were acked early."""

from dataclasses import dataclass, field

from headrace.runtime.wire.records import WireRecord
from headrace.runtime.worker.api import sdk


@dataclass(slots=True)
class PartitionView:
    """A partition of one assignment, in one worker: where its events come from, and which were acked early.

    `lane_id` names it in frames, `log` is the stamp of the log that its offsets are of: a topic that was made
    anew has the same offsets again. `end` lies after the last record that has come.

    Three threads write here, each its own part: the link thread what has come, the main thread what was
    entered, whichever thread acks what was acked.
    """

    topic: str
    partition: int
    trigger: sdk.TriggerInfo
    lane_id: int = 0
    record: WireRecord | None = None
    """The last record whose handler was called."""
    end: int = 0
    has_acked_ahead: bool = False
    open_range: tuple[int, int] | None = None
    """First and last offset of the range of offsets that was entered last, until it is acked."""
    _acked: set[int] = field(default_factory=set)
    _acked_below: int = 0
    _before: int = -1
    _overtaken: WireRecord | None = None
    # Behind the others, whose order pickles of events by older releases go by.
    log: str = ""
    reached_before: int = -1
    log_before: tuple[str, int] = ("", -1)
    """Stamp of the log before this one, and the last offset of it that was handled here."""

    @property
    def entered(self) -> int:
        """Offset of the last record whose handler was called.

        Where records have come since that lie below it, for another delivery, the offset before those.
        """
        record = self.record
        return self._before if record is None or record is self._overtaken else record.offset

    @property
    def reached(self) -> int:
        """Highest offset, more or less, of this log that was handled here, in this assignment or before."""
        return max(self.entered, self.reached_before)

    def follow(self, last: "PartitionView") -> None:
        """Take over what was handled under `last`, the view that was this partition's before."""
        if last.log == self.log:
            self.reached_before, self.log_before = last.reached, last.log_before
        else:
            self.log_before = (last.log, last.reached)

    def log_of(self, offset: int, current_log: str) -> str:
        """Return the stamp of the log that an offset is of, where whoever names it doesn't say.

        `current_log` is the log of which records are delivered now, perhaps to another worker. Handlers name
        what they were given: an offset that was handled here of the log before, and never yet of the current
        one, is of the log before.
        """
        if current_log and current_log != self.log:
            reached, before = -1, (self.log, self.reached)
        else:
            current_log, reached, before = self.log, self.reached, self.log_before
        return before[0] if reached < offset <= before[1] else current_log

    def received(self, first: int, end: int) -> None:
        """Note that records of `[first, end)` have come.

        If some of them were entered before, they have failed and come again.
        """
        if first <= self.entered:
            self.reached_before = self.reached
            self._before, self._overtaken = first - 1, self.record
        self.end = end

    def acked(self, offset: int, *, is_through: bool) -> None:
        """Note that an ack of `offset`, or with `is_through` of all up to it, has gone out.

        Only records that wait here matter: they need not be handled. Any other ack may still be refused.
        """
        if self.open_range is not None and offset >= self.open_range[1]:
            self.open_range = None
        if not self.entered < offset < self.end:
            return
        self._acked.add(offset)
        if is_through:
            self._acked_below = max(self._acked_below, offset + 1)
        self.has_acked_ahead = True

    def is_acked(self, offset: int, attempt: int) -> bool:
        """Whether the record at `offset`, which is next, need not be handled.

        A record that has failed has to be handled again: an ack of it may be of its last delivery, whose
        message was refused, and a later ack of others says nothing of it. The processor leaves it open until
        this delivery has ended.
        """
        is_acked = offset in self._acked or offset < self._acked_below
        self._acked.discard(offset)
        return is_acked and attempt == 1
