"""Whoever acks above handled records that stay open is told, at the time and once."""

import logging

import pytest
from worker_bench import records

from headrace.runtime.dispatch.ack_stalls import AckStallMonitor, log_what_stays_open
from headrace.runtime.dispatch.interface import NoFeed
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records


def handled(number: int, count: int = 8, *, acked: int | None = None) -> AssignedPartition:
    """So many records were handled, and at most one was acked. Eight fill it."""
    partition = of_records(PartitionKey("t", number), Checkpoint(0), 8)
    partition.on_fetched(records(0, count))
    taken = partition.lane.take(count, 1 << 20)
    partition.lane.on_unacked(taken)
    if acked is not None:
        partition.on_acked(acked, acked + 1)
    return partition


def test_an_ack_above_open_records_is_told_once_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    partitions = dict(enumerate([handled(0, 5, acked=4), handled(1, 5, acked=3), handled(2, 5)]))
    unacked = AckStallMonitor(NoFeed().limit_of)
    with caplog.at_level(logging.WARNING):
        unacked.look(partitions, 0.0)
        unacked.look(partitions, 4.9)
        assert caplog.messages == []
        for now in (5.0, 6.0, 60.0):
            unacked.look(partitions, now)
    (line,) = caplog.messages
    assert "t/0 offset 0 was handled" in line
    assert "explicitAckSemantics: cumulative" in line
    assert unacked.problems(partitions, 60.0) == []  # there is room for more


def test_a_commit_that_moves_starts_the_time_anew(caplog: pytest.LogCaptureFixture) -> None:
    partition = handled(0, 6, acked=5)
    unacked = AckStallMonitor(NoFeed().limit_of)
    for now in range(5):
        unacked.look({0: partition}, 4.0 * now)
        partition.on_acked(now, now + 1)
    assert "was handled" not in caplog.text


def test_a_partition_that_is_full_of_them_is_no_longer_ready() -> None:
    partitions = {0: handled(0, 9, acked=8), 1: handled(1, 8), 2: handled(2, 5, acked=4)}
    unacked = AckStallMonitor(NoFeed().limit_of)
    unacked.look(partitions, 0.0)
    assert unacked.problems(partitions, 1.0) == []
    unacked.look(partitions, 5.0)
    (problem,) = unacked.problems(partitions, 5.0)
    assert problem.startswith("t/0 is full of handled records that nobody acks, the first at offset 0")
    partitions[0].on_acked(0, 8)
    unacked.look(partitions, 6.0)
    assert unacked.problems(partitions, 6.0) == []


def test_what_leaves_with_open_records_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_what_stays_open([handled(number, 3, acked=0) for number in range(7)])
        log_what_stays_open([])
    (line,) = caplog.messages
    assert line.startswith("14 handled records stay open, as nobody has acked them, and are delivered again")
    assert "(t/0: 2 from offset 1, " in line
    assert line.endswith(", ...)")
