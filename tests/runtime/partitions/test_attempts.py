"""What a partition remembers of records that failed, until they are settled."""

from headrace.runtime.partitions.assigned import of_records
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.key import PartitionKey


def test_an_ack_of_several_leaves_the_attempts_of_records_that_are_still_to_be_fetched() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0, attempts=((7, 2),)), 16)
    partition.on_acked(0, 3)
    assert partition.checkpoint == Checkpoint(3, attempts=((7, 2),))
    partition.on_acked(5, 9)
    assert partition.checkpoint.attempts == ()
