"""Counters and gauges as a scrape shows them: each metric from its one declaration."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from headrace.runtime.metrics.declaration import declared_in
from headrace.runtime.metrics.runtime_metrics import METRICS, MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.chunk import Chunk, ChunkSlice
from headrace.runtime.partitions.flow_control import ReadAhead
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_chunks, of_records
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import PartitionStatus, status
from headrace.runtime.processor.processor import fill_gauges
from headrace.triggers.base import TriggerStatus
from headrace.triggers.kafka.format.decoder import decode

OWN = {
    "replica": "r",
    "namespace": "nuclio",
    "project": "default",
    "function": "f",
    "trigger_kind": "k",
    "trigger_id": "t",
}
PARTITION = OWN | {"topic": "orders", "partition": "3"}


@pytest.fixture
def metrics() -> MetricRegistry:
    return MetricRegistry()


@pytest.fixture
def counters(metrics: MetricRegistry) -> TriggerMetrics:
    return TriggerMetrics(metrics, "r", "f", "k", "t")


def scraped(metrics: MetricRegistry) -> Iterator[Sample]:
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        yield from family.samples


def shown(metrics: MetricRegistry, name: str) -> list[tuple[dict[str, str], float]]:
    return [(sample.labels, sample.value) for sample in scraped(metrics) if sample.name == name]


def assigned(number: int) -> AssignedPartition:
    return of_records(PartitionKey("orders", number), Checkpoint(7), 10)


@pytest.mark.parametrize(
    "name", [name for name, metric, _ in declared_in(TriggerMetrics) if metric.kind == "counter"]
)
def test_a_counter_counts_its_own_metric_and_nothing_else(
    metrics: MetricRegistry, counters: TriggerMetrics, name: str
) -> None:
    getattr(counters, name).inc(3)
    ((metric, values),) = [(m, v) for n, m, v in declared_in(TriggerMetrics) if n == name]
    (counted,) = [sample for sample in scraped(metrics) if sample.value and "function" in sample.labels]
    result = dict(zip(metric.labels[len(OWN) :], values, strict=True))
    assert (counted.name, counted.labels, counted.value) == (metric.shown_name, OWN | result, 3)


def row(partition: AssignedPartition) -> PartitionStatus:
    return status(partition, worker=None, committed=None, limited_by="")


def test_metrics_have_different_names() -> None:
    names = [metric.name for metric in METRICS]
    assert sorted(set(names)) == sorted(names)


def test_a_partition_is_shown_as_its_trigger_reports_it(
    metrics: MetricRegistry, counters: TriggerMetrics
) -> None:
    partition = assigned(3)
    fill_gauges(metrics.gauges, counters.labels, (), TriggerStatus(partitions=(row(partition),)))
    assert shown(metrics, "headrace_unsettled_records") == [(PARTITION, 0)]
    assert shown(metrics, "headrace_partition_halted") == [(PARTITION, 0)]
    assert shown(metrics, "headrace_committed_offset") == []

    partition.why_cut_off = "a reason"
    committed = replace(row(partition), committed=7)
    fill_gauges(metrics.gauges, counters.labels, (), TriggerStatus(partitions=(committed,)))
    assert shown(metrics, "headrace_partition_halted") == [(PARTITION, 1)]
    assert shown(metrics, "headrace_committed_offset") == [(PARTITION, 7)]


def test_what_waits_behind_a_halted_record_is_unsettled() -> None:
    partition = of_chunks(PartitionKey("orders", 3), Checkpoint(7), 10, 0, ReadAhead(1 << 20))
    chunk = Chunk(7, 5, memoryview(b"undecoded"), decode)
    partition.on_fetched(ChunkSlice(chunk, range(7, 12)))
    partition.lane.become(PartitionState.HALTED)
    assert row(partition).unsettled == 5


def test_a_partition_that_has_left_is_shown_no_more(
    metrics: MetricRegistry, counters: TriggerMetrics
) -> None:
    rows = tuple(replace(row(assigned(number)), committed=7) for number in (3, 4))
    fill_gauges(metrics.gauges, counters.labels, (), TriggerStatus(partitions=rows))
    metrics.gauges.clear()
    fill_gauges(metrics.gauges, counters.labels, (), TriggerStatus(partitions=rows[:1]))
    assert shown(metrics, "headrace_committed_offset") == [(PARTITION, 7)]


def test_a_status_page_says_the_names_in_camel_case() -> None:
    assert replace(row(assigned(3)), worker=1).json() == {
        "topic": "orders",
        "partition": 3,
        "state": "active",
        "isStuck": False,
        "committable": 7,
        "position": 7,
        "inFlight": 0,
        "unsettled": 0,
        "unacked": 0,
        "attempt": 1,
        "end": 7,
        "lag": 0,
        "oldestOpenSeconds": 0.0,
        "oldestUnackedSeconds": 0.0,
        "waitsFor": "a commit",
        "limitedBy": "",
        "worker": 1,
        "committed": None,
        "reason": "",
        "record": None,
    }


def test_durations_have_nuclios_names_and_labels() -> None:
    metrics = MetricRegistry()
    counted = TriggerMetrics(metrics, "r", "f", "kafka-cluster", "orders", "data", "shop")
    counted.on_handled(1, 30, 4_500_000)
    counted.on_handled(1, 10, 500_000)
    labels = {
        "replica": "r",
        "namespace": "data",
        "project": "shop",
        "function": "f",
        "trigger_kind": "kafka-cluster",
        "trigger_id": "orders",
        "worker_index": "1",
    }
    name = "nuclio_processor_handled_events_duration_milliseconds"
    assert metrics.registry.get_sample_value(f"{name}_sum", labels) == 5.0
    assert metrics.registry.get_sample_value(f"{name}_count", labels) == 40
