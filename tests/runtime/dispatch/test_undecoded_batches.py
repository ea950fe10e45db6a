"""BatchScheduler of records that only workers decode: the same outcomes, and nothing decoded here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from batch_bench import SEES, BatchBench, batch_bench, fresh
from chunks import Written, batch, sealed, undecoded
from hypothesis import given
from hypothesis import strategies as st
from standing_worker import StandingWorker
from worker_bench import Record, until

from headrace.runtime.config.delivery_policy import BatchPolicy, DeliveryPolicy, FailurePolicy
from headrace.runtime.dispatch.allocators import PoolAllocator
from headrace.runtime.dispatch.batch_scheduler import BatchScheduler
from headrace.runtime.dispatch.plan_committer import extend_plan
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.chunk import Chunk, ChunkRecord, ChunkSlice
from headrace.runtime.partitions.flow_control import ReadAhead
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.partition import AssignedPartition, of_chunks, of_records
from headrace.runtime.partitions.record_buffer import RecordBuffer
from headrace.runtime.partitions.status import is_stuck, stuck_at
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.records import WireRecord
from headrace.triggers.kafka.format.decoder import decode


def feed(b: BatchBench, partition: AssignedPartition, *chunks: Sequence[WireRecord]) -> None:
    for chunk in chunks:
        b.bench.dispatcher.add(partition, chunk)
    b.bench.dispatcher.dispatch()


@pytest.fixture(autouse=True)
def _no_decoding_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: ChunkRecord) -> WireRecord:
        raise AssertionError("the processor decodes a record")

    monkeypatch.setattr(ChunkRecord, "_decoded", refuse)


def planned(count: int) -> list[AssignedPartition]:
    """BatchScheduler of two wait in each, and a commit has told of them."""
    partitions = [of_records(PartitionKey("t", number), Checkpoint(0), 256) for number in range(count)]
    for partition in partitions:
        partition.on_fetched(undecoded(0, 10))
        extend_plan(partition, 2)
        partition.plan.on_safe(partition.plan.told())
    return partitions


async def test_batches_are_cut_across_chunks_and_handled_in_order(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=5, timeout_seconds=0.05) as b:
        (p,) = b.assign(*fresh(1))
        feed(b, p, undecoded(0, 7), undecoded(7, 3), undecoded(10, 3))
        await b.settled(13, p)
        assert b.offsets == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12]]
        assert b.source.commits[0] == {0: Checkpoint(0, plan=PlannedBatches(0, 5, behind=((5, 10),)))}


async def test_what_kills_its_worker_comes_again_as_it_was_and_then_one_by_one(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if any(event.offset == 4 for event in events):
                os.kill(os.getpid(), signal.SIGKILL)
    """
    failure = FailurePolicy(1, 0.01, then="skip")
    async with batch_bench(tmp_path, handler, size=4, timeout_seconds=0.02, failure=failure) as b:
        (p,) = b.assign(*fresh(1))
        feed(b, p, undecoded(0, 6), undecoded(6, 6))
        await b.settled(12, p)
        assert b.offsets == [[0, 1, 2, 3], *[[4, 5, 6, 7]] * 2, [4], [5], [6], [7], [8, 9, 10, 11]]


async def test_a_batch_that_fails_is_one_failure_however_many_chunks_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def handler(context, events):
            raise ValueError("no")
    """
    failure = FailurePolicy(3, 60)
    async with batch_bench(tmp_path, handler, size=6, timeout_seconds=0.02, failure=failure) as b:
        (p,) = b.assign(*fresh(1))
        feed(b, p, undecoded(0, 2), undecoded(2, 2), undecoded(4, 2))
        await until(lambda: bool(p.failed))
        assert [it.message.partition(" failed")[0] for it in caplog.records if "failed" in it.message] == [
            "t/0 offsets 0 to 5, in one batch,"
        ]


async def test_a_record_that_can_not_be_decoded_fails_by_itself(tmp_path: Path) -> None:
    data = bytearray(batch(0, [Written(value=b"0"), Written(value=b"1"), Written(value=b"2")]))
    data[data.rindex(b"1") + 1] = 5  # one header more than there is
    async with batch_bench(tmp_path, SEES, size=3, timeout_seconds=0.02) as b:
        (p,) = b.assign(*fresh(1))
        feed(b, p, ChunkSlice(Chunk(0, 3, sealed(data), decode)))
        await until(lambda: is_stuck(p))
        assert stuck_at(p) == 1
        assert b.offsets == [[0]]


async def test_with_exactly_once_those_beside_what_can_not_be_decoded_fail_with_it(tmp_path: Path) -> None:
    """What their handler has produced is of the whole batch, and goes with it or not at all."""
    data = bytearray(batch(0, [Written(value=b"0"), Written(value=b"1"), Written(value=b"2")]))
    data[data.rindex(b"1") + 1] = 5  # one header more than there is
    async with batch_bench(tmp_path, SEES, size=3, timeout_seconds=0.02, exactly_once=True) as b:
        (p,) = b.assign(*fresh(1))
        feed(b, p, ChunkSlice(Chunk(0, 3, sealed(data), decode)))
        await until(lambda: is_stuck(p))
        assert stuck_at(p) == 1
        assert len(b.offsets) > 1
        assert set(map(tuple, b.offsets)) == {(0,)}


def never(*_: object) -> Any:
    raise AssertionError("nothing fails, and nothing has to wait")


async def test_a_chunk_that_another_worker_has_begun_goes_to_one_that_idles_or_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = DispatcherState(
        DeliveryPolicy(batch=BatchPolicy(2, 600)),
        TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t"),
        PoolAllocator(),
        Lease.create(1),
    )
    batches = BatchScheduler(shared, BatchPolicy(2, 600), never, never, never)
    (partition,) = planned(1)
    first = partition.lane.take_batch(2)[0]  # somebody has begun its chunk
    partition.lane.on_settled(first)
    shared.partitions[partition.lane.id] = partition
    shared.allocator.offer(partition.lane)
    busy, idle = StandingWorker(), StandingWorker()
    busy.hold_batch(*planned(1))
    assert not batches.hand_out(busy.handle)
    assert batches.hand_out(idle.handle)
    assert idle.sent == [(partition.lane, [2, 3])]
    partition.lane.on_settled(idle.in_flight.runs[0].records)
    shared.allocator.offer(partition.lane)
    monkeypatch.setattr("headrace.runtime.dispatch.batch_scheduler.KEPT_SECONDS", -1)
    assert batches.hand_out(busy.handle)
    assert busy.sent == [(partition.lane, [4, 5])]
    await batches.stop()


async def test_a_batch_that_kills_its_worker_as_it_is_decoded_is_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n"
        "from headrace.triggers.kafka.format import decoder as kafka_decoder\n"
        "class Deadly(kafka_decoder.ChunkReader):\n"
        "    def read(self, count):\n"
        "        records = super().read(count)\n"
        "        if any(record.value == b'2' for record in records):\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return records\n"
        "def decode(data, skip):\n"
        "    return Deadly(memoryview(data), skip, 1 << 20, must_live=False)\n"
    )
    failure = FailurePolicy(1, 0.01, then="skip")
    async with batch_bench(
        tmp_path, SEES, size=4, timeout_seconds=0.02, failure=failure, decoder="deadly:decode"
    ) as b:
        (p,) = b.assign(*fresh(1))
        feed(b, p, undecoded(0, 8))
        await b.settled(8, p)
        assert [it for part in b.offsets for it in part] == [0, 1, 3, 4, 5, 6, 7]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), min_size=1, max_size=5), st.data())
def test_records_of_chunks_that_come_back_one_by_one_are_slices_again(
    parts: list[tuple[bool, int]], data: st.DataObject
) -> None:
    end, buffer = sum(count for _, count in parts), RecordBuffer()
    settled = data.draw(st.sets(st.integers(0, end - 1), max_size=4))
    ledger, at = Ledger(0), 0
    for is_chunk, count in parts:
        chunk = ChunkSlice(Chunk(at, count, bytes(10 * count), decode))
        buffer.append(chunk if is_chunk else [Record(offset) for offset in range(at, at + count)])
        at += count
    ledger.add(0, end)
    for offset in settled:
        ledger.settle(offset, offset + 1)
    before = buffer.size_bytes
    flat = [record for taken in buffer.take_below(end) for record in taken]
    assert buffer.size_bytes == 0
    buffer.put_back([flat], ledger)
    assert buffer.offsets(99) == [offset for offset in range(end) if offset not in settled]
    assert settled or buffer.size_bytes == before
    while buffer.count:
        taken = buffer.take(99, 1 << 20)
        assert isinstance(taken, ChunkSlice) == isinstance(taken[0], ChunkRecord)


def test_a_batch_may_be_larger_than_what_waits_else() -> None:
    partition = of_chunks(PartitionKey("t", 0), Checkpoint(0), 256, 0, ReadAhead(100, 20, 1000))
    partition.on_fetched(ChunkSlice(Chunk(0, 19, bytes(500), decode)))
    assert partition.may_grow
    partition.on_fetched(ChunkSlice(Chunk(19, 1, bytes(1), decode)))
    assert not partition.may_grow  # two batches of 10 wait


def test_the_whole_of_a_planned_batch_has_room_whatever_its_bytes() -> None:
    start = Checkpoint(0, plan=PlannedBatches(0, 50, behind=((50, 90),)))
    partition = of_chunks(PartitionKey("t", 0), start, 10, 0, ReadAhead(100))
    partition.on_fetched(ChunkSlice(Chunk(0, 40, bytes(5000), decode)))
    assert partition.to_fetch == 10
    partition.on_fetched(ChunkSlice(Chunk(40, 10, bytes(5000), decode)))
    assert partition.to_fetch == 0
