"""The record that a partition can't get past: shown whatever its producer has written."""

import pytest

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import of_records
from headrace.runtime.partitions.status import stuck_record
from headrace.runtime.wire.records import SentRecord


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (1_700_000_000_123, "2023-11-14T22:13:20.123+00:00"),
        (-1, None),
        (253_402_300_800_000, "253402300800000 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
    ],
)
def test_it_is_shown_whatever_time_its_producer_has_written(ms: int, shown: str | None) -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), capacity=1)
    partition.lane.ending = SentRecord(3, ms, 0, b"k", b"v", b"")
    found = stuck_record(partition, partition.lane)
    assert found is not None
    assert (found["offset"], found["timestamp"]) == (3, shown)
