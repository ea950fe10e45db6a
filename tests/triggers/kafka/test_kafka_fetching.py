"""How the trigger feeds its partitions: rooms, pauses, and fetches that outlast an assignment. No broker."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import NodeNotReadyError
from worker_bench import Bench, Record, bench, records, until

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy
from headrace.runtime.dispatch.monitor import DispatchMonitor
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.flow_control import StreamLimits
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.partitions.record_buffer import DECODED_BYTES
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.streams.assignment import Assignment
from headrace.triggers.kafka import fetching as fetching_module
from headrace.triggers.kafka.client import fetches
from headrace.triggers.kafka.client.epochs import LeaderEpochs
from headrace.triggers.kafka.fetching import Fetching
from headrace.triggers.kafka.stream import KafkaStream

TP = TopicPartition("t", 0)
WRITES = """
    def handler(context, event):
        write(event.offset)
"""


class ByHand(KafkaStream):
    """Its positions are its partitions' own; there is no group."""

    _membership: Any = SimpleNamespace(drop=lambda _: None)

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Nothing is fetched by itself."""

    def end_of(self, key: PartitionKey) -> int:
        return 0


def fed_by_hand(b: Bench) -> Fetching:
    """What fetches for a trigger that was never connected, with the dispatcher of a bench."""
    settings: Any = SimpleNamespace(
        max_wait_handler_during_rebalance_seconds=5, max_buffered_bytes=1 << 26, fetch_default_bytes=1 << 20
    )
    dead_letters: Any = SimpleNamespace()
    outputs: Any = SimpleNamespace(produce=None)
    stream = ByHand(settings, dead_letters, outputs, "", lambda: None, takes_acks=False)
    assignment = Assignment(b.dispatcher, stream, StreamLimits(16, 0, "channelBufferSize", 1 << 26))
    epochs = LeaderEpochs(lambda: None)
    fetching = stream.fetching = Fetching(None, assignment, b.dispatcher, settings, epochs, lambda _: None)
    return fetching


def assign(b: Bench, fetching: Fetching, capacity: int = 16) -> AssignedPartition:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), capacity)
    fetching._assigned[partition.key] = partition
    fetching.on_room(partition)
    b.dispatcher.begin([partition])
    return partition


async def test_a_fetch_before_an_unreadable_record_may_outlast_the_assignment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_come = asyncio.Event()

    async def fetch(*_: object) -> dict[TopicPartition, Any]:
        await has_come.wait()
        return {TP: records(0, 1)}

    monkeypatch.setattr(fetches, "fetch", fetch)
    async with bench(tmp_path, WRITES) as b:
        trigger = fed_by_hand(b)
        old = assign(b, trigger)
        halting = asyncio.create_task(trigger.halt_at(old, 5, ValueError("unreadable")))
        await asyncio.sleep(0)
        trigger._assigned.clear()
        await b.dispatcher.revoke([old], 0)
        new = assign(b, trigger)
        has_come.set()
        await halting
        b.feed(new, records(1, 3))
        await b.settled(new, 4)
        assert b.lines() == ["0", "1", "2", "3"]


async def test_what_a_failed_fetch_has_dropped_of_other_partitions_is_fetched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client had moved on in them: what lies between would look like compacted away."""
    monkeypatch.setattr(fetching_module, "_RETRY_SECONDS", 0)
    sought: dict[TopicPartition, int] = {}
    consumer = SimpleNamespace(seek=sought.__setitem__)
    settings: Any = SimpleNamespace(max_buffered_bytes=1 << 26, fetch_default_bytes=1 << 20)
    partitions = {
        key: of_records(key, Checkpoint(5), 16) for key in (PartitionKey(*TP), PartitionKey("t", 1))
    }
    partitions[PartitionKey("t", 1)].on_fetched(records(5, 3))
    assignment: Any = SimpleNamespace(partitions=partitions)
    fetching = Fetching(
        consumer, assignment, assignment, settings, LeaderEpochs(lambda: None), lambda _: None
    )
    await fetching._recover(NodeNotReadyError())
    assert sought == {TP: 5, TopicPartition("t", 1): 8}


async def test_a_partition_that_is_halted_or_full_is_fetched_no_more(tmp_path: Path) -> None:
    policy = DeliveryPolicy(ack_mode=AckMode.EXPLICIT_ONLY)
    async with bench(tmp_path, WRITES, policy=policy, static=True) as b:
        trigger = fed_by_hand(b)
        partition = assign(b, trigger)
        b.feed(partition, records(0, 12))
        await until(lambda: len(partition.awaiting_ack) == 12)
        assert trigger.items_of(partition.key) == 4  # what fits, as all else waits for acks
        assert TP in trigger._to_fetch
        partition.lane.become(PartitionState.HALTED)
        assert trigger.items_of(partition.key) == 0
        assert TP not in trigger._to_fetch


@pytest.mark.parametrize(("are_chunks", "at_workers"), [(False, 0), (True, 2000)])
async def test_what_decoded_records_may_take_is_left_free_and_no_more_than_half(
    tmp_path: Path, *, are_chunks: bool, at_workers: int
) -> None:
    """All that a partition may hold. Among chunks, others than those that wait may be at workers."""
    most, capacity = 1 << 26, 16
    async with bench(tmp_path, WRITES) as b:
        fetching = fed_by_hand(b)
        fetching._assignment.are_chunks = are_chunks
        partition = assign(b, fetching)
        fetching.leave_room_for_decoded()
        assert fetching.budget.max_bytes == most // 2, "nothing is known of them"
        for size in (100, 1000, 10):
            offset = partition.ledger.position
            fetching._take_in(partition, [Record(offset, bytes(size)), Record(offset + 1, bytes(size))])
            largest = max(size, 100 if size == 100 else 1000) + DECODED_BYTES
            assert fetching.budget.max_bytes == most - (capacity + at_workers) * largest
        fetching._take_in(partition, [Record(partition.ledger.position, bytes(most // capacity))])
        assert fetching.budget.max_bytes == most // 2


async def test_a_record_that_runs_for_long_pauses_the_fetch_of_its_partition_until_it_ends(
    tmp_path: Path,
) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            wait_for("go")
    """
    policy = DeliveryPolicy(max_processing_time_seconds=0)
    async with bench(tmp_path, handler, policy=policy) as b:
        trigger = fed_by_hand(b)
        partition = assign(b, trigger)
        metrics = TriggerMetrics(b.metrics, "", "f", "kafka-cluster", "t")
        b.feed(partition, records(0, 1))
        await until(lambda: b.lines() == ["0"])
        DispatchMonitor(b.dispatcher, metrics).look()
        assert TP not in trigger._to_fetch
        (tmp_path / "go").touch()
        await b.settled(partition, 1)
        assert TP in trigger._to_fetch


async def test_a_rebalance_that_meets_a_stop_waits_for_its_last_commit(tmp_path: Path) -> None:
    """Else the group goes on, the commit's generation is over, and what was settled comes again."""
    order: list[str] = []
    may_commit = asyncio.Event()

    class Committer:
        metrics = TriggerMetrics(MetricRegistry(), "", "f", "memory", "t")
        max_chars = 4096

        async def commit(self, partitions: object, timeout_seconds: float) -> bool:
            await may_commit.wait()
            order.append("committed")
            return True

        def close(self) -> None:
            order.append("closed")

    async with bench(tmp_path, WRITES) as b:
        fetching = fed_by_hand(b)
        assign(b, fetching)
        assignment: Any = fetching._assignment
        assignment.committer = Committer()
        stop = asyncio.create_task(assignment.give_back(1, 0))
        await asyncio.sleep(0)
        assert assignment._releases
        revoke = asyncio.create_task(assignment.give_back(5, 0))
        revoke.add_done_callback(lambda _: order.append("rejoins"))
        await asyncio.wait([revoke], timeout=0.1)
        may_commit.set()
        await asyncio.gather(stop, revoke)
        assert order.index("committed") < order.index("rejoins")
