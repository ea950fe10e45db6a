"""What is counted and measured of handlers, workers and partitions: each value is one that the test knows."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from worker_bench import QUICK, Bench, bench, records, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy, FailurePolicy
from headrace.runtime.dispatch.monitor import DispatchMonitor
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.awaiting_ack import AwaitingAck
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import of_records

OWN = ("", "nuclio", "default", "f", "kafka-cluster", "t")
LABELS = dict(
    zip(("replica", "namespace", "project", "function", "trigger_kind", "trigger_id"), OWN, strict=True)
)
HANDLER = "headrace_handler_duration_seconds"
LATENCY = "headrace_end_to_end_seconds"


@pytest.fixture
def metrics() -> MetricRegistry:
    return MetricRegistry()


@pytest.fixture
def counted(metrics: MetricRegistry) -> TriggerMetrics:
    return TriggerMetrics(metrics, "", "f", "kafka-cluster", "t")


def seen(b: Bench, name: str, **labels: str) -> float:
    """As a scrape would."""
    b.dispatcher._state.metrics.flush()
    return value(b.metrics, name, **labels)


def value(metrics: MetricRegistry, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(name, LABELS | labels)
    assert found is not None, name
    return found


def at_most(metrics: MetricRegistry, name: str, seconds: float) -> float:
    """How many took no longer."""
    return value(metrics, f"{name}_bucket", le=str(float(seconds)))


def restarts(b: Bench, reason: str) -> float:
    return seen(b, "headrace_worker_restarts_total", reason=reason)


def test_of_a_run_the_slowest_counts_by_itself(metrics: MetricRegistry, counted: TriggerMetrics) -> None:
    counted.on_handled(0, 5, 1_004_000_000, (1_000_000_000,))
    counted.flush()
    assert at_most(metrics, HANDLER, 0.0005) == 0
    assert at_most(metrics, HANDLER, 0.001) == 4
    assert at_most(metrics, HANDLER, 0.5) == 4
    assert at_most(metrics, HANDLER, 1) == 5
    assert value(metrics, f"{HANDLER}_sum") == pytest.approx(1.004)


def test_what_ran_beside_each_other_counts_one_by_one(
    metrics: MetricRegistry, counted: TriggerMetrics
) -> None:
    counted.on_handled(0, 2, 60_000_000, (10_000_000, 50_000_000))
    counted.flush()
    assert at_most(metrics, HANDLER, 0.01) == 1
    assert at_most(metrics, HANDLER, 0.05) == 2
    assert value(metrics, f"{HANDLER}_count") == 2


def test_latency_is_from_the_records_timestamp(metrics: MetricRegistry, counted: TriggerMetrics) -> None:
    counted.on_latency(int((time.time() - 100) * 1e3), 3)
    counted.on_latency(int((time.time() + 100) * 1e3), 1)  # the clock of whoever made it is ahead
    counted.on_latency(-1, 5)
    counted.on_latency(None, 5)
    counted.flush()
    assert at_most(metrics, LATENCY, 60) == 1
    assert at_most(metrics, LATENCY, 300) == 4
    assert value(metrics, f"{LATENCY}_sum") == pytest.approx(300, abs=5)


def test_allocations_have_nuclios_names(metrics: MetricRegistry, counted: TriggerMetrics) -> None:
    counted.on_allocated(0.0, 0.5)
    counted.on_allocated(0.25, 0.0)
    counted.on_not_allocated()
    counted.flush()
    name = "nuclio_processor_worker_allocation"
    results = {result: value(metrics, f"{name}_total", result=result) for result in RESULTS}
    assert results == {"success_immediate": 1, "success_after_wait": 1, "error_timeout": 1}
    assert value(metrics, f"{name}_count") == 3
    assert value(metrics, f"{name}_wait_duration_milliseconds_sum") == 250
    assert value(metrics, f"{name}_workers_available_percentage") == 50


RESULTS = ("success_immediate", "success_after_wait", "error_timeout")


async def test_a_slow_record_among_quick_ones_is_seen(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            if event.offset == 70:
                time.sleep(0.3)
    """
    async with bench(tmp_path, handler) as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 100))
        await b.settled(partition, 100)
        await until(lambda: seen(b, f"{HANDLER}_count") == 100)
        assert at_most(b.metrics, HANDLER, 0.25) == 99
        assert at_most(b.metrics, HANDLER, 1) == 100
        assert seen(b, "nuclio_processor_worker_allocation_count") >= 2


async def test_async_handlers_beside_each_other_are_measured(tmp_path: Path) -> None:
    handler = """
        import asyncio

        async def handler(context, event):
            await asyncio.sleep(0.2 if event.offset else 0)
    """
    policy = replace(QUICK, ordering="none", max_concurrency=4)
    async with bench(tmp_path, handler, policy=policy) as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 4))
        await b.settled(partition, 4)
        await until(lambda: seen(b, f"{HANDLER}_count") == 4)
        assert at_most(b.metrics, HANDLER, 0.1) == 1


DIES = """
    def handler(context, event):
        if event.attempt == 1:
            os._exit(3)
"""
HANGS = """
    def handler(context, event):
        if event.attempt == 1:
            time.sleep(60)
"""
GROWS = """
    def handler(context, event):
        if event.attempt == 1:
            context.user_data.held = bytearray(200 << 20)
            time.sleep(60)
"""
ONCE_MORE = replace(QUICK, failure=FailurePolicy(max_attempts=3))


@pytest.mark.parametrize(
    ("handler", "policy", "reason", "timeouts"),
    [
        (DIES, ONCE_MORE, "died", 0),
        (HANGS, replace(ONCE_MORE, event_timeout_seconds=0.3), "timeout", 1),
        (GROWS, replace(ONCE_MORE, memory_limit_bytes=150 << 20), "memory", 0),
    ],
    ids=["died", "timeout", "memory"],
)
async def test_a_lost_process_is_counted_by_its_reason(
    tmp_path: Path, handler: str, policy: DeliveryPolicy, reason: str, timeouts: int
) -> None:
    async with bench(tmp_path, handler, policy=policy) as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await b.settled(partition, 1)
        lost = {it: restarts(b, it) for it in ("died", "timeout", "memory", "rebalance", "silent")}
        assert {it for it, count in lost.items() if count} == {reason}
        assert lost[reason] == 1
        assert seen(b, "headrace_retries_total") == 1
        assert seen(b, "headrace_timeouts_total") == timeouts


async def test_a_kill_for_what_leaves_is_no_crash(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            time.sleep(60)
    """
    async with bench(tmp_path, handler) as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: b.lines() == ["0"])
        await b.dispatcher.revoke([partition], 0)
        await until(lambda: restarts(b, "rebalance") == 1)
        assert restarts(b, "died") == 0


@pytest.fixture
def age_of() -> Callable[[float, list[int], list[int]], float]:
    """Looks at a partition at a time, after these were handled and those were acked."""
    dispatcher: Any = None  # of no interest to ages
    monitor = DispatchMonitor(dispatcher, TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t"))
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), 100)
    partition.ledger.add(0, 50)

    def look(now: float, handled: list[int], acked: list[int]) -> float:
        partition.awaiting_ack.add(handled, 0)
        for offset in acked:
            partition.on_acked(offset, offset + 1)
        monitor.measure_ages({1: partition}, now)
        return partition.oldest_unacked_seconds

    return look


def test_a_record_that_comes_again_waits_anew_and_those_above_it_do_not(
    age_of: Callable[[float, list[int], list[int]], float],
) -> None:
    assert age_of(101.0, [5], []) == 0
    assert age_of(105.0, [1], []) == 4
    assert age_of(110.0, [], [5]) == 5


def test_a_look_at_ages_walks_no_records(
    age_of: Callable[[float, list[int], list[int]], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert age_of(101.0, [0, 1, 2], []) == 0

    def walks(_: AwaitingAck) -> NoReturn:
        raise AssertionError("it walks")

    monkeypatch.setattr(AwaitingAck, "__iter__", walks)
    assert age_of(103.0, [], []) == 2


def test_the_oldest_unacked_record_keeps_its_age_when_an_older_one_is_acked(
    age_of: Callable[[float, list[int], list[int]], float],
) -> None:
    assert age_of(100.0, [], []) == 0
    assert age_of(101.0, [0, 1], []) == 0
    assert age_of(105.0, [2], []) == 4
    assert age_of(110.0, [3], [0]) == 9  # record 1, which was there at 101
    assert age_of(111.0, [], [1]) == 6  # record 2, at 105
    assert age_of(112.0, [], [2, 3]) == 0
    assert age_of(113.0, [4], []) == 0
