"""What people see of a partition that stands: a reason, whatever it is."""

from worker_bench import records

from headrace.runtime.partitions.assigned import AssignedPartition, of_records
from headrace.runtime.partitions.books.held import Call, Held
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import waits_for


def fetched() -> AssignedPartition:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), 256)
    partition.on_fetched(records(0, 2))
    return partition


def test_what_waits_for_a_worker_its_handler_an_ack_and_a_message_says_so() -> None:
    p = fetched()
    assert waits_for(p, "") == "a worker"
    assert waits_for(p, "maxInFlight") == "maxInFlight"
    taken = p.lane.take(2, 1 << 20)
    p.lane.on_sent(0)
    assert waits_for(p, "") == "its handler"
    p.lane.on_unacked(taken)
    assert waits_for(p, "") == "an ack, or the backoff of what was nacked"
    p.held[0] = Held(Call(1), 1, 0)
    p.on_acked(0, 2)
    assert waits_for(p, "") == "its messages to be written"
    p.held.drop(0)
    assert not waits_for(p, "")


def test_what_failed_and_what_comes_again_says_so() -> None:
    p = fetched()
    p.lane.become(PartitionState.RETURNING)
    p.lane.become(PartitionState.BACKOFF)
    assert waits_for(p, "maxInFlight") == "backing off"
    p.lane.become(PartitionState.ACTIVE)
    taken = p.lane.take(2, 1 << 20)
    p.lane.on_sent(0)
    p.lane.on_unacked(taken)
    p.unacked.orphan(0)
    p.redeliver()
    assert waits_for(p, "") == "a fetch of what comes again"
