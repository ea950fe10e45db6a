"""`/metrics` of a run on a real broker: all that is documented, and values that the test knows."""

import asyncio
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from kafka_records import produce
from prometheus_client.parser import text_string_to_metric_families
from replica import DECODED, Replica, lines, replica, set_spec, set_trigger, wait_until, write_function

from headrace.runtime.metrics.runtime_metrics import METRICS

HALTS = """
    def handler(context, event):
        if event.shard_id == 0 and event.offset == 5:
            raise ValueError("the sixth")
        write(event.offset)
"""
COUNTS = """
    def handler(context, event):
        write(event.offset)
"""
Samples = dict[str, list[tuple[dict[str, str], float]]]


def scrape(running: Replica) -> Samples:
    """By name. The official parser reads it."""
    found: Samples = {}
    families = list(text_string_to_metric_families(running.get("/metrics")[1]))
    assert len({family.name for family in families}) == len(families)
    for sample in (sample for family in families for sample in family.samples):
        found.setdefault(sample.name, []).append((sample.labels, sample.value))
    for name, samples in found.items():
        keys = [tuple(sorted(labels.items())) for labels, _ in samples]
        assert len(set(keys)) == len(keys), name
    return found


def value(running: Replica, name: str, **labels: str) -> float:
    """The sum of those that have these labels."""
    return sum(it for given, it in scrape(running).get(name, []) if labels.items() <= given.items())


def names_of(running: Replica) -> set[str]:
    return set(scrape(running))


def test_all_that_is_documented_is_there_with_values_that_are_right(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic(2)
    folder = write_function(tmp_path / "f", HALTS, broker.bootstrap, [topic], onFailure={"maxAttempts": 2})
    produce(broker, topic, 20, 2)
    with replica(folder) as running:
        wait_until(lambda: value(running, "headrace_partition_halted") == 1, about=running)
        wait_until(lambda: running.committed() == {0: 5, 1: 10}, about=running)
        produce(broker, topic, 20, 2)
        wait_until(lambda: value(running, "headrace_lag_records", partition="0") == 15, about=running)
        wait_until(lambda: value(running, "headrace_lag_records", partition="1") == 0, about=running)
        names = names_of(running)
        shown = {
            name: value(running, name)
            for name in (
                "headrace_retries_total",
                "headrace_partition_halted",
                "headrace_rebalances_total",
                "headrace_build_info",
                "nuclio_processor_handled_events_duration_milliseconds_count",
                "headrace_worker_restarts_total",
            )
        }
        ok = value(running, "nuclio_processor_handled_events_total", result="success")
        failed = value(running, "nuclio_processor_handled_events_total", result="failure")
        handled = value(running, "headrace_handler_duration_seconds_count")
        latencies = value(running, "headrace_end_to_end_seconds_count")
        unsettled = value(running, "headrace_unsettled_records", partition="0")
        end = value(running, "headrace_log_end_offset", partition="0")
        age = value(running, "headrace_last_commit_age_seconds")
        resident = value(running, "headrace_worker_resident_bytes")
        process = {name for name in names if name.startswith("process_")}
        wait_until(lambda: value(running, "headrace_oldest_open_seconds", partition="0") >= 2, about=running)
        assert value(running, "headrace_oldest_open_seconds", partition="1") == 0
        assert running.stop() == 0
    of_metrics = {
        "counter": ("_total",),
        "gauge": ("",),
        "summary": ("_sum", "_count"),
        "histogram": ("_bucket", "_sum", "_count"),
    }
    documented = {f"{metric.name}{end}" for metric in METRICS for end in of_metrics[metric.kind]}
    assert documented <= names
    assert names - documented == process
    assert "process_resident_memory_bytes" in process
    assert shown == {
        "headrace_retries_total": 1,
        "headrace_partition_halted": 1,
        "headrace_rebalances_total": 1,
        "headrace_build_info": 1,
        "nuclio_processor_handled_events_duration_milliseconds_count": 27,
        "headrace_worker_restarts_total": 0,
    }
    assert (ok, failed, handled, latencies) == (25, 2, 27, 25)
    assert unsettled == 5  # of the ten that were fetched: the halted record, and what waits behind it
    assert end == 20
    assert age < 60
    assert resident > 10 << 20


async def _produce_old(broker: Broker, topic: str, age_seconds: float) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        made_ms = int((time.time() - age_seconds) * 1e3)
        for _ in range(10):
            await producer.send_and_wait(topic, b"x", partition=0, timestamp_ms=made_ms)


@pytest.mark.full
def test_latency_is_known_of_records_that_nobody_has_decoded_here_and_of_others(
    broker: Broker, tmp_path: Path
) -> None:
    for number, attributes in enumerate(({}, DECODED)):
        topic = broker.create_topic(1)
        folder = write_function(tmp_path / f"{number}", COUNTS, broker.bootstrap, [topic], **attributes)
        asyncio.run(_produce_old(broker, topic, 100))
        with replica(folder) as running:
            wait_until(lambda: value(running, "headrace_end_to_end_seconds_count") == 10, about=running)
            assert value(running, "headrace_end_to_end_seconds_bucket", le="60.0") == 0
            assert value(running, "headrace_end_to_end_seconds_bucket", le="300.0") == 10


@pytest.mark.full
def test_what_waits_for_acks_is_told_with_its_age_and_its_lag(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic(1)
    folder = write_function(
        tmp_path / "f",
        COUNTS,
        broker.bootstrap,
        [topic],
        workerAllocationMode="static",
        channelBufferSize=4,
    )
    set_trigger(folder, explicitAckMode="explicitOnly")
    produce(broker, topic, 20, 1)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 4, about=running)
        wait_until(lambda: value(running, "headrace_oldest_unacked_seconds") >= 2, about=running)
        assert value(running, "headrace_unacked_records") == 4
        produce(broker, topic, 20, 1)
        wait_until(lambda: value(running, "headrace_lag_records") == 40, 30, about=running)
        assert value(running, "headrace_log_end_offset") == 40


@pytest.mark.full
def test_replicas_are_told_apart_and_a_rebalance_is_measured(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic(8)
    folder = write_function(tmp_path / "f", COUNTS, broker.bootstrap, [topic], workers=1)
    set_spec(folder, description="of a shop")
    produce(broker, topic, 80)
    with replica(folder, name="-a") as first:
        first.wait_ready()
        assert value(first, "headrace_rebalance_duration_seconds_count") == 0
        with replica(folder, "--replicas", "2", name="-b") as others:
            others.wait_ready()
            wait_until(lambda: value(first, "headrace_rebalance_duration_seconds_count") >= 1, about=first)
            stood = value(first, "headrace_partition_stop_seconds_count")
            kept = len(first.trigger()["partitions"])
            assert stood >= kept  # what it was given again
            assert value(first, "headrace_partition_stop_seconds_sum") < 60 * stood
            replicas = {labels["replica"] for labels, _ in scrape(others)["process_open_fds"]}
            assert replicas == {"replica-0", "replica-1"}
            assert value(others, "headrace_build_info") == 2
            assert others.stop() == 0
