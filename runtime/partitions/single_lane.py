"""A lane of one event at a time, which no partition holds and nobody commits: a request, a firing."""

from collections.abc import Sequence

from headrace.runtime.partitions.chunk import Chunk
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Plain, next_lane_id
from headrace.runtime.wire.records import WireRecord

Records = Sequence[WireRecord]


class EventLane(Plain):
    """Keeps Lane. Its user derives from it, writes the methods at the end, and calls `put`."""

    next_chunk: Chunk | None = None
    is_head_refused = False

    def __init__(self, key: PartitionKey) -> None:
        """The topic in `key` has a colon in it: no handler can mean a record of a stream by that."""
        self.id = next_lane_id()
        self.key = key
        self.epoch = 0
        self.worker_index: int | None = None
        self.in_flight_count = 0
        self.is_recalled = False
        self.attempts = 1
        """Of the event that it has, this one included."""
        self._waiting: WireRecord | None = None
        self._failure: str | None = None

    # ---- for its user

    def put(self, record: WireRecord) -> None:
        """The next event, where it has none. `submit` follows."""
        self._waiting, self._failure = record, None

    def drop(self) -> bool:
        """Don't hand out what waits; whether something did."""
        waited, self._waiting = self._waiting is not None, None
        return waited

    # ---- as Lane says

    @property
    def is_deliverable(self) -> bool:
        """Whether something waits."""
        return self._waiting is not None

    def attempt(self, record: WireRecord) -> int:
        """Counted by its user."""
        return self.attempts

    def take(self, limit: int, byte_limit: int) -> Records:
        """The one that waits."""
        assert self._waiting is not None, "it is deliverable"
        record, self._waiting = self._waiting, None
        self.in_flight_count = 1
        return (record,)

    def first_offsets(self, records: Records) -> Sequence[int]:
        """Its number."""
        return [record.offset for record in records]

    def spans(self, records: Records) -> Sequence[tuple[int, int]]:
        """Its number, as a span."""
        return [(record.offset, record.offset + 1) for record in records]

    def on_sent(self, worker_index: int) -> None:
        """It is at this worker."""
        self.worker_index = worker_index

    def on_recalled(self) -> None:
        """It was asked to come back, if it hasn't started."""
        self.is_recalled = True

    def on_settled(self, records: Records) -> None:
        """The handler has returned."""
        self._leave()
        self.on_ended(None)

    def on_unacked(self, records: Records) -> None:
        """Without a partition there is nothing to ack."""
        self.on_settled(records)

    def on_failed(self, records: Records, reason: str, among: int) -> None:
        """`on_returned` follows."""
        self.epoch += 1
        self._failure = reason

    def on_suspected(self, records: Records) -> None:
        """It is never handed out together with others."""

    def on_returned(self, records: Records) -> None:
        """It has failed, or hasn't started, or its worker was killed for something else."""
        self._leave()
        if self._failure is not None:
            self.on_ended(self._failure)
        else:
            self.on_came_back(records[0])

    def _leave(self) -> None:
        self.in_flight_count = 0
        self.is_recalled = False

    # ---- for whoever derives from it

    def on_ended(self, failure: str | None) -> None:
        """Its handler has: with success, or why not. It is idle, and may be given the next one."""

    def on_came_back(self, record: WireRecord) -> None:
        """Without an outcome. It is idle; `put` has it handed out again."""
