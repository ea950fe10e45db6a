"""Whoever acks above handled records that stay open is told, at the time and once."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from worker_bench import records

from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.dispatch.monitor import DispatchMonitor
from headrace.runtime.dispatch.revoking import log_unacked
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records


def monitor() -> DispatchMonitor:
    """Of a dispatcher of which nothing is asked but what limits a partition."""
    dispatcher: Any = SimpleNamespace(limit_of=Feed().limit_of)
    return DispatchMonitor(dispatcher, TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t"))


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
    unacked = monitor()
    with caplog.at_level(logging.WARNING):
        unacked.check_acks(partitions, 0.0)
        unacked.check_acks(partitions, 4.9)
        assert caplog.messages == []
        for now in (5.0, 6.0, 60.0):
            unacked.check_acks(partitions, now)
    (line,) = caplog.messages
    assert "t/0 offset 0 was handled" in line
    assert "explicitAckSemantics: cumulative" in line
    assert unacked.ack_problems(partitions, 60.0) == []  # there is room for more


def test_a_commit_that_moves_starts_the_time_anew(caplog: pytest.LogCaptureFixture) -> None:
    partition = handled(0, 6, acked=5)
    unacked = monitor()
    for now in range(5):
        unacked.check_acks({0: partition}, 4.0 * now)
        partition.on_acked(now, now + 1)
    assert "was handled" not in caplog.text


def test_a_partition_that_is_full_of_them_is_no_longer_ready() -> None:
    partitions = {0: handled(0, 9, acked=8), 1: handled(1, 8), 2: handled(2, 5, acked=4)}
    unacked = monitor()
    unacked.check_acks(partitions, 0.0)
    assert unacked.ack_problems(partitions, 1.0) == []
    unacked.check_acks(partitions, 5.0)
    (problem,) = unacked.ack_problems(partitions, 5.0)
    assert problem.startswith("t/0 is full of handled records that nobody acks, the first at offset 0")
    partitions[0].on_acked(0, 8)
    unacked.check_acks(partitions, 6.0)
    assert unacked.ack_problems(partitions, 6.0) == []


def test_what_leaves_with_open_records_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_unacked([handled(number, 3, acked=0) for number in range(7)])
        log_unacked([])
    (line,) = caplog.messages
    assert line.startswith("14 handled records stay open, as nobody has acked them, and are delivered again")
    assert "(t/0: 2 from offset 1, " in line
    assert line.endswith(", ...)")
