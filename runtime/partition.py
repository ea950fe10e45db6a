"""One partition in one assignment: what was fetched of it, what is in flight, what is settled."""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import count
from typing import Any

from headrace.runtime.ledger import Ledger
from headrace.runtime.wire import WireRecord

_ids = count()


class Hold(Enum):
    """Why a partition's records may not be handed out. The value is what a status page says."""

    NONE = "active"
    RETURNING = "returning"  # a record failed; those behind it are on their way back
    BACKOFF = "backing off"  # a failed record waits for its next attempt
    HALTED = "halted"  # a failed record has spent its attempts
    REVOKED = "revoked"  # for good: a new assignment is a new object

    @property
    def is_final(self) -> bool:
        """Nothing more comes of this assignment."""
        return self in (Hold.HALTED, Hold.REVOKED)


class AssignedPartition:
    """Mutated by its dispatcher alone; its trigger fills it and reads what may be committed.

    Records are handed out in offset order, all in flight at one worker at a time. From the moment that some
    are asked to come back, or one has failed, nothing is handed out until the last one in flight is settled
    or back: only then is it known what comes first.
    """

    __slots__ = (
        *("_buffer", "_returned", "attempt", "capacity", "epoch", "hold", "id", "in_flight"),
        *("is_cut_off", "is_queued", "is_recalled", "ledger", "partition", "topic", "worker_index"),
    )

    def __init__(self, topic: str, partition: int, start: int, capacity: int) -> None:
        """Deliver from offset `start`; hold at most `capacity` unsettled records."""
        self.id = next(_ids) % 2**32  # on the wire
        self.topic = topic
        self.partition = partition
        self.ledger = Ledger(start)
        self.capacity = capacity
        self.hold = Hold.NONE
        self.attempt = 1  # the delivery that the first record to hand out is at
        self.epoch = 0  # rises with each failure; see DESIGN.md, "Wire"
        self.in_flight = 0  # records at the worker `worker_index`
        self.worker_index: int | None = None
        self.is_queued = False  # in its allocator's queue
        self.is_recalled = False  # some in flight were asked to come back
        self.is_cut_off = False  # the record at ledger.position can't be read: nothing more is fetched
        self._buffer: deque[WireRecord] = deque()
        self._returned: list[WireRecord] = []

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        """What all assignments of this partition share; sorts by topic, then number."""
        return (self.topic, self.partition)

    @property
    def unsettled(self) -> int:
        """Records that are held in memory: waiting, in flight, or on their way back."""
        return len(self._buffer) + self.in_flight + len(self._returned)

    @property
    def is_stuck(self) -> bool:
        """Only somebody's hand or a new assignment helps."""
        return self.is_cut_off or self.hold is Hold.HALTED

    @property
    def has_room(self) -> bool:
        """Whether a fetch of half its capacity fits. Half, so that fetches come in batches."""
        return not self.is_cut_off and not self.hold.is_final and 2 * self.unsettled <= self.capacity

    @property
    def is_deliverable(self) -> bool:
        """Whether the next record may be handed out now. Nothing goes behind one that is tried again."""
        must_wait = self.in_flight and (self.is_recalled or self.attempt > 1)
        return self.hold is Hold.NONE and bool(self._buffer) and not must_wait

    def fetched(self, records: Sequence[WireRecord]) -> None:
        """Records came from the source, in order, after all that came before: ledger first, then buffer."""
        first, last = records[0].offset, records[-1].offset
        if last - first + 1 == len(records):
            self.ledger.add(first, last + 1)
        else:  # compaction or control records left holes
            for record in records:
                self.ledger.add(record.offset, record.offset + 1)
        self._buffer.extend(records)

    def take(self, limit: int, byte_limit: int) -> list[WireRecord]:
        """The next records to hand out, at least one. A record that is tried again goes alone."""
        buffer = self._buffer
        taken = [buffer.popleft()]
        size = _size(taken[0])
        wanted = 1 if self.attempt > 1 else limit
        while len(taken) < wanted and buffer and (size := size + _size(buffer[0])) <= byte_limit:
            taken.append(buffer.popleft())
        self.in_flight += len(taken)
        return taken

    def settled(self, records: Sequence[WireRecord]) -> None:
        """These were in flight, follow each other, and succeeded."""
        self.attempt = 1
        self.ledger.settle(records[0].offset, records[-1].offset + 1)
        self._left(len(records))

    def came_back(self, records: Sequence[WireRecord]) -> None:
        """These were in flight and are to be handed out again, once nothing is in flight any more."""
        self._returned.extend(records)
        self._left(len(records))

    def _left(self, count: int) -> None:
        self.in_flight -= count
        if self.in_flight:
            return
        self.is_recalled = False
        # They came back in several messages, in any order.
        self._returned.sort(key=lambda record: record.offset)
        if self.hold is not Hold.REVOKED:
            self._buffer.extendleft(reversed(self._returned))
        self._returned.clear()

    def revoke(self) -> None:
        """No more records are handed out, ever; what waits is dropped and stays open in the ledger."""
        self.hold = Hold.REVOKED
        self._buffer.clear()

    def status(self) -> dict[str, Any]:
        """For a status page: JSON types only."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "state": Hold.HALTED.value if self.is_stuck else self.hold.value,
            "committable": self.ledger.committable,
            "position": self.ledger.position,
            "inFlight": self.in_flight,
            "unsettled": self.unsettled,
            "attempt": self.attempt,
        }

    @property
    def head(self) -> WireRecord | None:
        """The next record to hand out."""
        return self._buffer[0] if self._buffer else None


def _size(record: WireRecord) -> int:
    return len(record.value or b"") + len(record.key or b"")
