"""What people see of a partition that stands: a reason, whatever it is."""

from worker_bench import records

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.pending_produces import HandlerCall, PendingRecord
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import waits_for


def fetched() -> AssignedPartition:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), 256)
    partition.on_fetched(records(0, 2))
    return partition


def test_what_waits_for_a_worker_its_handler_an_ack_a_message_or_a_commit_says_so() -> None:
    p = fetched()
    assert waits_for(p, "", 0) == "a worker"
    assert waits_for(p, "maxInFlight", 0) == "maxInFlight"
    taken = p.lane.take(2, 1 << 20)
    p.lane.on_sent(0)
    assert waits_for(p, "", 0) == "its handler"
    p.lane.on_unacked(taken)
    assert waits_for(p, "", 0) == "an ack, or the backoff of what was nacked"
    p.pending[0] = PendingRecord(HandlerCall(1), 1, 0)
    p.on_acked(0, 2)
    assert waits_for(p, "", 0) == "its messages to be written"
    p.pending.drop(0)
    assert waits_for(p, "", None) == waits_for(p, "", 1) == "a commit"
    assert not waits_for(p, "", 2)


def test_what_failed_and_what_comes_again_says_so() -> None:
    p = fetched()
    p.lane.become(PartitionState.RETURNING)
    p.lane.become(PartitionState.BACKOFF)
    assert waits_for(p, "maxInFlight", 0) == "backing off"
    p.lane.become(PartitionState.ACTIVE)
    taken = p.lane.take(2, 1 << 20)
    p.lane.on_sent(0)
    p.lane.on_unacked(taken)
    p.awaiting_ack.orphan(0)
    p.redeliver()
    assert waits_for(p, "", 0) == "a fetch of what comes again"
