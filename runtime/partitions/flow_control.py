"""How many records of a partition may be held."""

import sys
from dataclasses import dataclass
from typing import Protocol

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.partitions.offsets.awaiting_ack import AwaitingAck
from headrace.runtime.partitions.offsets.batch_plan import BatchPlan
from headrace.runtime.partitions.offsets.failed_records import FailedRecords
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.partition_lane import PartitionLane

MOST_OUT_OF_ORDER = 400


"""What 4,096 characters of a commit's text have place for, which is what brokers take by default."""


_HEAD_CHARS, _SPAN_CHARS = 96, 9


@dataclass(frozen=True, slots=True)
class FlowLimit:
    """Records of one partition, at most."""

    waiting: int
    """For a worker, decoded; where all are decoded: fetched and not settled."""
    in_flight: int
    """Handed out and not settled."""
    acked_at_once: int
    """The same while nothing waits for an ack, as each is acked before its handler returns."""
    out_of_order: int = MOST_OUT_OF_ORDER
    """Where records may overtake each other: spans that were settled before something below them, and records
    that may become one."""

    @classmethod
    def of(cls, capacity: int) -> "FlowLimit":
        """The same for each."""
        return cls(capacity, capacity, capacity)

    def within(self, most: int) -> "FlowLimit":
        """None is more than that."""
        waiting, in_flight = min(most, self.waiting), min(most, self.in_flight)
        return FlowLimit(waiting, in_flight, min(most, self.acked_at_once), self.out_of_order)


def most_out_of_order(max_text_chars: int) -> int:
    """How many spans a commit whose text has at most so many characters can tell of."""
    return min(MOST_OUT_OF_ORDER, max(1, (max_text_chars - _HEAD_CHARS) // _SPAN_CHARS))


MOST_IN_FLIGHT = 2_000


"""Of one partition, where handlers' time alone says how many: so many quick ones keep two workers busy."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How much is held."""

    buffered: int
    """Records of one partition that may wait for a worker, decoded."""
    in_flight: int
    """Records of one partition that may be handed out and not settled; 0: as many as suit."""
    name: str
    """Of the setting that bounds what waits for acks."""
    max_buffered_bytes: int

    def of_partition(self, policy: DeliveryPolicy, worker_count: int) -> FlowLimit:
        """Where nobody has said what is in flight, workers get what they run in some milliseconds.

        But what stays open after its handler, for an ack or a transaction, is bounded as what waits here.
        """
        two_batches = 2 * policy.batch.size if policy.batch else 0  # one fills while another one is handled
        least = two_batches
        if policy.ordering != "partition":  # and all workers are full, as far as keys let them
            least = 2 * worker_count * policy.max_concurrency
        waiting = max(self.buffered, self.in_flight, least)
        if self.in_flight:
            in_flight = max(self.in_flight, two_batches)
            return FlowLimit(waiting, in_flight, in_flight)
        if policy.batch or policy.exactly_once:
            return FlowLimit(waiting, waiting, waiting)
        most = max(waiting, MOST_IN_FLIGHT)
        return FlowLimit(waiting, waiting if policy.ack_mode.is_explicit else most, most)


NO_LIMIT = sys.maxsize


class Held(Protocol):
    """What a bound is reckoned from: an assigned partition."""

    @property
    def lane(self) -> PartitionLane: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def plan(self) -> BatchPlan: ...
    @property
    def failed(self) -> FailedRecords: ...
    @property
    def unacked(self) -> AwaitingAck: ...
    @property
    def acks_at_once(self) -> bool: ...
    @property
    def bounds(self) -> FlowLimit: ...
    @property
    def to_hand_out(self) -> int: ...
    @property
    def is_loose(self) -> bool: ...


def decoded_in(held: Held) -> tuple[int, int]:
    """How many decoded records wait in it, and about how many bytes they take."""
    buffers = [lane.buffer for lane in held.lane.parts]
    return sum(it.decoded_count for it in buffers), sum(it.decoded_bytes for it in buffers)


def missing_of_plan(held: Held) -> int:
    """How many offsets are still to be fetched of the planned batch that goes next."""
    return held.plan.missing_from(held.ledger.position, held.lane.buffer.next_offset)


def _handed_out(held: Held) -> int:
    """Records at workers, and those that wait for acks."""
    return held.ledger.open_count - sum(lane.buffer.count for lane in held.lane.parts)


class Room(Protocol):
    """One of those below."""

    bounds: FlowLimit

    def to_fetch(self, held: Held) -> int:
        """How many records may be fetched now."""

    def left_bytes(self, held: Held) -> int:
        """How much more may wait, where bytes bound it; below 0 where a fetch has brought more than that."""

    def may_grow(self, held: Held) -> bool:
        """Whether more may come to what waits."""

    def to_hand_out(self, held: Held) -> int:
        """How many of those that wait may be handed out now."""

    def left_in_flight(self, held: Held) -> int:
        """How many of them, by number alone: for the record that holds up the commit nothing else counts."""

    def is_used_up(self, held: Held) -> bool:
        """Nothing more is handed out before some is settled."""


class RecordRoom:
    """Decoded records."""

    def __init__(self, bounds: FlowLimit) -> None:
        self.bounds = bounds

    def to_fetch(self, held: Held) -> int:
        """Half of all at least, so that the bound holds exactly and fetches come in batches.

        Less only where all that is held waits for acks: a handler may collect just that many before it acks.
        The whole of a planned batch always has room.
        """
        if missing := missing_of_plan(held):
            return max(missing, self.bounds.waiting // 2)
        room = self.bounds.waiting - held.ledger.open_count
        return max(room, 0) if 2 * room >= self.bounds.waiting or held.lane.is_idle else 0

    def left_bytes(self, held: Held) -> int:
        """Its owner sets the bounds by bytes."""
        return NO_LIMIT

    def may_grow(self, held: Held) -> bool:
        """By a fetch."""
        return self.to_fetch(held) > 0

    def to_hand_out(self, held: Held) -> int:
        """What is fetched may go, as far as its bound."""
        return self.left_in_flight(held)

    def left_in_flight(self, held: Held) -> int:
        """By number alone."""
        if self.bounds.in_flight >= self.bounds.waiting:
            return NO_LIMIT
        return max(0, self.bounds.in_flight - _handed_out(held))

    def is_used_up(self, held: Held) -> bool:
        """All that it may hold is there, and none of it waits for a worker; or all that may be out is."""
        if held.lane.is_idle:
            return not self.to_fetch(held)
        return not (held.lane.out_count or self.to_hand_out(held))


class LooseRoom(RecordRoom):
    """Decoded records that overtake each other, no further than a commit can tell."""

    def to_fetch(self, held: Held) -> int:
        """As above, or what there is room for where nothing moves: a key that stands isn't all of them."""
        room = self.bounds.waiting - held.ledger.open_count
        is_moving = held.lane.out_count > 0 or held.lane.is_deliverable
        return max(room, 0) if 2 * room >= self.bounds.waiting or not is_moving else 0

    def to_hand_out(self, held: Held) -> int:
        """And so that nothing that has succeeded is forgotten where this process dies."""
        return min(_may_overtake(held), super().to_hand_out(held))


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """How much of undecoded chunks may wait: `bytes`; `most_bytes` below so many records, for a batch."""

    bytes: int
    least_count: int = 0
    most_bytes: int = 0


class ChunkRoom:
    """Undecoded chunks, of which bytes bound what waits."""

    def __init__(self, bounds: FlowLimit, ahead: ReadAhead) -> None:
        self.bounds = bounds
        self._ahead = ahead

    def to_fetch(self, held: Held) -> int:
        """Of chunks, all that a fetch has brought or nothing; of decoded records, so many.

        The whole of a planned batch always has room.
        """
        if missing := missing_of_plan(held):
            return missing
        room = self.bounds.waiting - held.lane.buffer.decoded_count
        is_full = self.left_bytes(held) <= 0
        return 0 if is_full or 2 * room < self.bounds.waiting else room

    def left_bytes(self, held: Held) -> int:
        """Of those that the constructor was given."""
        buffer, ahead = held.lane.buffer, self._ahead
        most_bytes = ahead.most_bytes if buffer.count < ahead.least_count else ahead.bytes
        return most_bytes - buffer.size_bytes

    def may_grow(self, held: Held) -> bool:
        """By a fetch."""
        return self.to_fetch(held) > 0

    def to_hand_out(self, held: Held) -> int:
        """Behind others only half of all at least, so that runs are long."""
        room = self.left_in_flight(held)
        is_much = 2 * room >= self._most_in_flight(held)
        return room if is_much or not held.lane.in_flight_count else 0

    def left_in_flight(self, held: Held) -> int:
        """By number alone."""
        return max(0, self._most_in_flight(held) - _handed_out(held))

    def is_used_up(self, held: Held) -> bool:
        """All that may be handed out is, and none of it runs."""
        return not (held.lane.in_flight_count or self.left_in_flight(held))

    def _most_in_flight(self, held: Held) -> int:
        is_at_once = held.acks_at_once and not held.unacked
        return self.bounds.acked_at_once if is_at_once else self.bounds.in_flight


def is_out_of_order(held: Held) -> bool:
    """So many records have overtaken others that a commit can't tell of more: none of them goes on."""
    return held.is_loose and not _may_overtake(held) and held.ledger.settled_span_count > held.lane.out_count


def _may_overtake(held: Held) -> int:
    return max(0, held.bounds.out_of_order - held.ledger.settled_span_count - held.lane.out_count)


class RangeRoom:
    """Ranges of offsets: nothing is fetched, and one range is out at a time until it is acked."""

    bounds = FlowLimit(0, 0, 0)

    def to_fetch(self, held: Held) -> int:
        """Nothing."""
        return 0

    def left_bytes(self, held: Held) -> int:
        """Nothing is fetched."""
        return NO_LIMIT

    def may_grow(self, held: Held) -> bool:
        """Offsets take no room."""
        return True

    def to_hand_out(self, held: Held) -> int:
        """So that a new owner could still repeat the last one; one that failed waits for no ack of others.

        But for the range that it follows on, as the halves of one do: a plan can't say that both are open. A
        new owner would join them, and an ack that somebody has kept, by the last offset of the upper one,
        would settle both.
        """
        next_offset = held.lane.buffer.next_offset
        is_held_up = bool(held.unacked) and (
            next_offset not in held.failed or any(end == next_offset for _, end in held.unacked.ranges())
        )
        return 0 if held.lane.in_flight_count or is_held_up else NO_LIMIT

    def left_in_flight(self, held: Held) -> int:
        """They aren't counted."""
        return NO_LIMIT

    def is_used_up(self, held: Held) -> bool:
        """The next one waits for the ack of the last."""
        return not held.lane.in_flight_count and held.lane.buffer.count > 0
