"""Flow control of one partition: how much of it may be fetched, and handed out, before some is settled."""

import sys
from dataclasses import dataclass

from headrace.runtime.config.delivery_policy import BatchPolicy, DeliveryPolicy
from headrace.runtime.partitions.partition_lane import PartitionLane

NO_LIMIT = sys.maxsize
MOST_OUT_OF_ORDER = 400
"""Settled spans above the offset of a commit that its text has place for, with the 4,096 characters that
brokers take by default."""
_TEXT_HEAD_CHARS, _SPAN_CHARS = 96, 9
MOST_IN_FLIGHT = 2_000
"""Records of one partition that may be at workers if nothing but handler times limits them: so many quick
ones keep two workers busy."""
AHEAD_BYTES = 1 << 19
"""Undecoded bytes of a partition that may wait: enough to keep workers busy during a fetch."""
_BATCHES_PART = 3 / 8
"""The part of a partition's share that its batches may take, whatever the other partitions hold."""
# Parts of a partition's share that decoded records may take. The rest is for what comes undecoded, and among
# chunks also for the decoded records that are at workers.
_DECODED_PART, _DECODED_AMONG_CHUNKS_PART = 2, 4


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """How much of undecoded chunks may wait for workers.

    That is `bytes`, or `most_bytes` while fewer than `least_count` records wait: a batch has to fill up.
    """

    bytes: int
    least_count: int = 0
    most_bytes: int = 0

    @classmethod
    def of(cls, share_bytes: int, batch: BatchPolicy | None) -> "ReadAhead":
        """Return how much suits a partition that may hold `share_bytes`."""
        ahead_bytes = min(AHEAD_BYTES, share_bytes)
        if batch is None:
            return cls(ahead_bytes)
        # One batch is filled while another one is handled, as far as the share goes.
        return cls(ahead_bytes, 2 * batch.size, max(ahead_bytes, int(share_bytes * _BATCHES_PART)))


@dataclass(frozen=True, slots=True)
class FlowLimit:
    """Numbers of records of one partition that may be fetched and handed out before some are settled.

    The methods take the partition's lane, which knows what waits and what is in flight. Ranges of offsets
    have no limit: nothing of them is fetched, and one is out at a time.
    """

    waiting: int
    """Decoded records that may wait for a worker; if no chunks come, that may be fetched and not settled."""
    in_flight: int
    """Records that may be handed out and not settled."""
    acked_at_once: int
    """Counts instead of `in_flight` while no record waits for an ack, as handlers ack before they return."""
    out_of_order: int = MOST_OUT_OF_ORDER
    """If records may overtake each other: how many spans may be settled above an open record. Each record in
    flight counts too, as it may become such a span."""
    read_ahead: ReadAhead | None = None
    """For a partition that is fetched as undecoded chunks: how many bytes of them may wait."""

    @classmethod
    def of(cls, capacity: int, read_ahead: ReadAhead | None = None) -> "FlowLimit":
        """Return a limit that has `capacity` for each number of records, and the usual `out_of_order`."""
        return cls(capacity, capacity, capacity, read_ahead=read_ahead)

    def within(self, most: int, read_ahead: ReadAhead | None = None) -> "FlowLimit":
        """Return a limit with these numbers, but none above `most`, and with that `read_ahead`.

        `out_of_order` stays: it goes by the text of a commit, not by what records take.
        """
        waiting, in_flight = min(most, self.waiting), min(most, self.in_flight)
        return FlowLimit(waiting, in_flight, min(most, self.acked_at_once), self.out_of_order, read_ahead)

    def to_fetch(self, lane: PartitionLane) -> int:
        """Return how many records may be fetched now.

        Either 0 or at least half of `waiting`: so the limit holds exactly, and fetches come in bulk. Fewer
        only if nothing that is held moves by itself, as a handler may collect just that many records before
        it acks. Records of chunks aren't counted: `left_bytes` bounds them. A planned batch has room as a
        whole, whatever its size.
        """
        offsets, buffer = lane.offsets, lane.buffer
        if buffer.holds_ranges:
            return 0
        if lane.is_keyed:
            # Keys that wait for their next attempt hold up no others: those are fetched past them.
            free = self.waiting - offsets.ledger.open_count
            is_moving = lane.out_count > 0 or lane.is_deliverable
            return max(free, 0) if 2 * free >= self.waiting or not is_moving else 0
        missing = 0 if offsets.plan.planned is None else missing_of_plan(lane)
        if self.read_ahead is not None:
            if missing:
                return missing
            free = self.waiting - buffer.decoded_count
            is_full = self.left_bytes(lane) <= 0
            return 0 if is_full or 2 * free < self.waiting else free
        if missing:
            return max(missing, self.waiting // 2)
        free = self.waiting - offsets.ledger.open_count
        return max(free, 0) if 2 * free >= self.waiting or lane.is_idle else 0

    def may_grow(self, lane: PartitionLane) -> bool:
        """Whether more may come to what waits: by a fetch, or as the log of a partition of ranges grows."""
        return lane.buffer.holds_ranges or self.to_fetch(lane) > 0

    def left_bytes(self, lane: PartitionLane) -> int:
        """Return how many bytes of chunks may still come.

        Below 0 if a fetch has brought more than had place.
        """
        ahead, buffer = self.read_ahead, lane.buffer
        if ahead is None:
            return NO_LIMIT
        most_bytes = ahead.most_bytes if buffer.count < ahead.least_count else ahead.bytes
        return most_bytes - buffer.size_bytes

    def to_hand_out(self, lane: PartitionLane) -> int:
        """Return how many of the records that wait may be handed out now."""
        if lane.buffer.holds_ranges:
            return 0 if lane.in_flight_count or _waits_for_range(lane) else NO_LIMIT
        is_limited = self.in_flight < self.waiting or self.read_ahead is not None
        left = self.left_in_flight(lane) if is_limited else NO_LIMIT
        if lane.is_keyed:
            # A commit has to tell of all records that succeeded: any other runs again if this process dies.
            return min(self.left_to_overtake(lane), left)
        if self.read_ahead is not None and lane.in_flight_count and 2 * left < self._most_in_flight(lane):
            return 0  # behind records in flight, half of the number or none: so runs are long
        return left

    def left_in_flight(self, lane: PartitionLane) -> int:
        """Return how many records may be handed out by number alone, however many have overtaken others.

        No more is asked of the record that holds up the commit: it overtakes none.
        """
        if lane.buffer.holds_ranges:
            return NO_LIMIT
        most = self.in_flight
        if self.read_ahead is not None:
            most = self._most_in_flight(lane)
        elif most >= self.waiting:
            return NO_LIMIT  # `waiting` has limited the fetch already
        # Open records that don't wait here are at workers, or wait for an ack.
        return max(0, most - lane.offsets.ledger.open_count + _waiting_count(lane))

    def left_to_overtake(self, lane: PartitionLane) -> int:
        """Return how many more records of a keyed partition may overtake others."""
        return max(0, self.out_of_order - lane.offsets.ledger.settled_span_count - lane.out_count)

    def is_used_up(self, lane: PartitionLane) -> bool:
        """Whether nothing more is handed out before some records are settled."""
        if lane.buffer.holds_ranges:
            return not lane.in_flight_count and lane.buffer.count > 0  # it waits for the ack of the last one
        if self.read_ahead is not None:
            return not (lane.in_flight_count or self.left_in_flight(lane))
        if lane.is_idle:  # all records that are held wait for acks
            return not self.to_fetch(lane)
        return not (lane.out_count or self.to_hand_out(lane))

    def _most_in_flight(self, lane: PartitionLane) -> int:
        is_at_once = lane.offsets.acks_at_once and not lane.offsets.awaiting_ack
        return self.acked_at_once if is_at_once else self.in_flight


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How much of a stream is held, as a trigger's settings say it."""

    buffered: int
    """Decoded records of one partition that may wait for a worker."""
    in_flight: int
    """Records of one partition that may be handed out and not settled; 0: as many as suit."""
    name: str
    """Name of the setting that limits how many records wait for acks, as people are told it."""
    max_buffered_bytes: int
    """Bytes of all partitions together."""

    def of_partition(self, policy: DeliveryPolicy, worker_count: int) -> FlowLimit:
        """Return the limit of each partition, which bytes may lower later.

        If no setting says how many records may be in flight, workers get what they run in some milliseconds.
        But if records stay open after their handler, for an ack or a transaction, no more of them may be in
        flight than may wait.
        """
        two_batches = 2 * policy.batch.size if policy.batch else 0  # one fills while another one is handled
        least = two_batches
        if policy.ordering != "partition":  # twice what all workers can run, as keys may hold some of it back
            least = 2 * worker_count * policy.max_concurrency
        waiting = max(self.buffered, self.in_flight, least)
        if self.in_flight:
            in_flight = max(self.in_flight, two_batches)
            return FlowLimit(waiting, in_flight, in_flight)
        if policy.batch or policy.exactly_once:
            return FlowLimit(waiting, waiting, waiting)
        most = max(waiting, MOST_IN_FLIGHT)
        return FlowLimit(waiting, waiting if policy.ack_mode.is_explicit else most, most)


def most_in_share(share_bytes: int, record_bytes: int, *, is_decoded: bool, are_chunks: bool) -> int:
    """Return how many records of that size a partition may hold of its `share_bytes`; one at least.

    `are_chunks`: its source brings undecoded chunks, perhaps among decoded records.
    """
    part = 1
    if is_decoded:
        part = _DECODED_AMONG_CHUNKS_PART if are_chunks else _DECODED_PART
    return max(1, share_bytes // part // record_bytes)


def most_out_of_order(max_text_chars: int) -> int:
    """Return how many spans a commit can tell of whose text has at most so many characters."""
    return min(MOST_OUT_OF_ORDER, max(1, (max_text_chars - _TEXT_HEAD_CHARS) // _SPAN_CHARS))


def missing_of_plan(lane: PartitionLane) -> int:
    """Return how many offsets are still to be fetched of the planned batch that goes next."""
    return lane.offsets.plan.missing_from(lane.offsets.ledger.position, lane.buffer.next_offset)


def _waiting_count(lane: PartitionLane) -> int:
    """Return how many records wait, of all parts."""
    return sum(part.buffer.count for part in lane.parts) if lane.is_keyed else lane.buffer.count


def _waits_for_range(lane: PartitionLane) -> bool:
    """Whether the next range waits for the ack of another one.

    A fresh range waits until all others are acked: until then a new owner could still repeat them. A range
    that failed waits for one ack at most, that of the range right before it, which is the other half of the
    range that was cut. A plan can't say that both are open: a new owner would join them, and a handler's ack
    of the upper half, which names its last offset, would settle both.
    """
    awaiting_ack, next_offset = lane.offsets.awaiting_ack, lane.buffer.next_offset
    if not awaiting_ack:
        return False
    is_fresh = next_offset not in lane.offsets.failed
    return is_fresh or any(end == next_offset for _, end in awaiting_ack.ranges())
