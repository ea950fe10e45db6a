"""What stands still, and whether anybody can see why: nothing may wait without a reason that has a name."""

from collections.abc import Iterator

from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import PartitionStatus

Standing = tuple[int, str]
"""The lane's id, and in words what waits there."""

_S = PartitionState


def without_reason(dispatcher: Dispatcher) -> Iterator[Standing]:
    """What waits, and nothing that is under way or to be seen will ever have it go on."""
    for partition in dispatcher.partitions.values():
        if partition.lane.state is _S.REVOKED or partition.is_replaced:
            continue
        for lane in partition.lane.parts:
            if lane.buffer.count and not lane.in_flight_count and not lane.is_deliverable:
                if not _is_explained(dispatcher, partition, lane):
                    yield lane.id, f"offset {lane.buffer.next_offset} waits, {lane.state.value}"
            elif lane.state.waits_for_a_record and not (lane.buffer.count or partition.fetched_before):
                yield lane.id, f"it waits for a record that isn't here, {lane.state.value}"
        unacked = partition.awaiting_ack
        if unacked.has_orphans and not partition.lane.out_count and partition.lane.state is _S.ACTIVE:
            yield partition.lane.id, "what is to come again isn't fetched"
        if nowhere := _nowhere(partition):
            yield partition.lane.id, f"{nowhere} open records are nowhere"


def _is_explained(dispatcher: Dispatcher, partition: AssignedPartition, lane: PartitionLane) -> bool:
    match lane.state:
        case _S.BACKOFF | _S.WRITING_DEAD_LETTER:
            return lane in dispatcher._failures._tasks
        case _S.HALTED:
            return bool(lane.why_stuck)
        case _S.PLANNING:
            return True  # the batch that it is in is looked at as such
        case _S.ACTIVE:
            is_full = partition.lane.out_count > 0 or bool(dispatcher.limit_of(partition))
            return is_full or partition.awaiting_ack.has_orphans
    return False  # what is returning is in flight


def _nowhere(partition: AssignedPartition) -> int:
    """How many records are open, and neither wait, nor run, nor are to be acked or to come again."""
    if partition.lane.buffer.holds_ranges:
        return 0
    waiting = sum(lane.buffer.count + sum(map(len, lane._returned)) for lane in partition.lane.parts)
    known = waiting + partition.lane.out_count + len(partition.awaiting_ack)
    return max(0, partition.ledger.open_count - known)


def is_named(status: PartitionStatus) -> bool:
    """People see why it stands."""
    return bool(status.waits_for)
