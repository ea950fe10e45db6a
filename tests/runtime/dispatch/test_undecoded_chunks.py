"""Undecoded chunks give the events that decoded records give, in the same order."""

import gc
import struct
import weakref
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nuclio_sdk
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher as aiokafka_fetcher
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords
from chunks import Written, batch, compressed, control_batch, logs, sealed, undecoded
from hypothesis import example, given
from hypothesis import strategies as st
from worker_bench import Record, bench, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy, FailurePolicy
from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.partitions.chunk import Chunk, ChunkSlice
from headrace.runtime.partitions.flow_control import ReadAhead
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_chunks
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import is_stuck, problem, stuck_at
from headrace.runtime.wire.framing import Buffer
from headrace.runtime.wire.records import RunHeader, WireRecord, decode_records, encode_run
from headrace.runtime.wire.undecoded import ChunkCache, UndecodableError
from headrace.runtime.worker.api.event import StreamEvent
from headrace.runtime.worker.api.partition_view import PartitionView
from headrace.runtime.worker.inbox import ReceivedChunk
from headrace.runtime.workers import sender as worker_sender
from headrace.runtime.workers.process import WorkerProcess
from headrace.triggers.kafka.client import undecoded_fetch as kafka_chunks
from headrace.triggers.kafka.fetching import FetchItemLimit
from headrace.triggers.kafka.format.batches import FetchedBatches
from headrace.triggers.kafka.format.decoder import decode

TP = TopicPartition("t", 3)
SOURCE = PartitionView("t", 3, nuclio_sdk.TriggerInfo("kafka-cluster", "t"))
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def fetched(
    data: bytes, at: int, *, is_undecoded: bool, aborted: Sequence[tuple[int, int]] | None = None
) -> Any:
    """An iterator as a fetch has it; `aborted`: producer and first offset, as with read_committed."""
    kind = kafka_chunks._PartitionBatches if is_undecoded else PartitionRecords
    records = kafka_chunks._FetchedBytes(data) if is_undecoded else MemoryRecords(data)
    isolation_level = READ_UNCOMMITTED if aborted is None else READ_COMMITTED
    return kind(TP, records, aborted, at, None, None, True, isolation_level)


def events(items: Iterable[Any], run_length: int = 5) -> list[tuple[Any, ...]]:
    """What handlers see, with runs of that length."""
    return [
        tuple(getattr(event, name) for name in FIELDS)
        for records in kafka_chunks.pieces(list(items))
        for begin in range(0, len(records), run_length)
        for event in in_worker(records[begin : begin + run_length])
    ]


@pytest.mark.parametrize("is_undecoded", [True, False], ids=["undecoded", "decoded"])
def test_what_is_dropped_amid_its_records_is_let_go_at_once(*, is_undecoded: bool) -> None:
    data = b"".join((*(batch(at, [Written()] * 3) for at in (0, 10, 20)), control_batch(30, is_commit=True)))
    for count in range(3):
        holds: list[weakref.ref[Any]] = []
        found = counted(data, holds, is_undecoded=is_undecoded)
        gc.disable()
        try:
            assert len(list(islice(found, count))) == count
            del found
            assert [it() for it in holds] == [None]
        finally:
            gc.enable()


def counted(data: bytes, holds: list["weakref.ref[Any]"], *, is_undecoded: bool) -> Any:
    """As a fetch has it whose bytes are counted."""

    class Held:
        pass

    def hold(*_: object) -> Held:
        held = Held()
        holds.append(weakref.ref(held))
        return held

    if is_undecoded:
        fetched: Any = kafka_chunks._FetchedBytes(data)
        return kafka_chunks._PartitionBatches(TP, fetched, None, 0, None, None, True, 0, hold=hold)
    return kafka_chunks._CountedRecords(
        TP, FetchedBatches(data, 1 << 20), None, 0, None, None, True, 0, hold=hold
    )


FIELDS = ("offset", "body", "key", "header_list", "timestamp", "timestamp_type", "size")


def in_worker(run: Sequence[WireRecord]) -> list[StreamEvent]:
    if isinstance(run, ChunkSlice):
        received = ReceivedChunk(bytes(run.chunk.data), decode)
        found = received.read(run.offsets.start - run.chunk.first, len(run))
    else:
        header = RunHeader(1, 0, 0, 1, len(run))
        found = decode_records(encode_run(header, run)[8:])
    return [StreamEvent(record, SOURCE, 1) for record in found]


def test_a_chunk_that_was_read_in_part_is_let_go_at_once() -> None:
    """Not when cycles are found: by then a busy worker holds many, and its memory is never warm."""
    reader = decode(batch(0, [Written()] * 10))
    assert len(reader.read(5)) == 5
    is_there = weakref.ref(reader)
    gc.disable()
    try:
        del reader
        assert is_there() is None
    finally:
        gc.enable()


@given(logs(), st.integers(1, 7), st.integers(0, 3000))
def test_both_paths_yield_the_same_events(log: tuple[bytes, int], run_length: int, piece_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_chunks, "PIECE_BYTES", piece_bytes)
        one, other = (fetched(*log, is_undecoded=it) for it in (True, False))
        assert events(one, run_length) == events(other)
    assert one.next_fetch_offset == other.next_fetch_offset


@given(logs(), st.lists(st.integers(0, 60), max_size=3))
def test_both_paths_leave_out_the_same_aborted_transactions(
    log: tuple[bytes, int], begins: list[int]
) -> None:
    aborted = [(7, log[1] + begin) for begin in sorted(begins)]
    one, other = (fetched(*log, is_undecoded=it, aborted=aborted) for it in (True, False))
    assert events(one) == events(other)
    assert one.next_fetch_offset == other.next_fetch_offset


def test_what_is_committed_goes_undecoded_and_an_answer_with_aborted_transactions_does_not() -> None:
    committed = [batch(0, [Written()], producer_id=7), control_batch(1, is_commit=True)]
    aborted = [batch(2, [Written()], producer_id=7), control_batch(3, is_commit=False)]
    data = b"".join([*committed, *aborted, batch(4, [Written()])])
    first, second = (
        fetched(b"".join(committed), 0, is_undecoded=True, aborted=[]),
        fetched(data, 0, is_undecoded=True, aborted=[(7, 2)]),
    )
    assert [type(it) for it in first] == [ChunkSlice]
    assert first.next_fetch_offset == 2
    assert [record.offset for record in second] == [0, 4]


@given(logs())
def test_a_processor_that_looks_into_a_batch_sees_the_same_records(log: tuple[bytes, int]) -> None:
    def seen(records: Iterable[Any]) -> list[tuple[Any, ...]]:
        return [(r.offset, r.key, r.value, tuple(r.headers), r.timestamp, r.timestamp_type) for r in records]

    looked_at = [r for piece in kafka_chunks.pieces(list(fetched(*log, is_undecoded=True))) for r in piece]
    assert seen(looked_at) == seen(fetched(*log, is_undecoded=False))


def test_most_batches_go_undecoded_and_small_ones_together() -> None:
    data = b"".join(batch(offset, [Written()]) for offset in range(10, 20))
    (piece,) = fetched(data, 10, is_undecoded=True)
    assert isinstance(piece, ChunkSlice)
    assert piece.offsets == range(10, 20)


@given(st.integers(0, 4), st.lists(st.binary(max_size=6), min_size=1, max_size=3), st.integers(0, 3))
@example(0, [b"\xff\xfe", b"a"], 2)
def test_names_of_headers_may_be_any_bytes(codec: int, names: list[bytes], before: int) -> None:
    headers = [(name.decode(errors="surrogateescape"), name) for name in names]
    # The builder takes UTF-8 only: a name of as many bytes holds the place.
    places = [("n" * len(name), name) for name in names]
    records = [*[Written()] * before, Written(value=b"x", headers=places), Written(value=b"after")]
    found = list(decode(compressed(_renamed(batch(5, records), places, names), codec)))
    assert [record.offset for record in found] == list(range(5, 5 + len(records)))
    assert list(found[before].headers) == headers
    assert found[-1].value == b"after"


def _renamed(data: bytes, places: list[tuple[str, bytes]], names: list[bytes]) -> bytes:
    renamed = bytearray(data)
    at = len(data)
    for (place, value), name in zip(reversed(places), reversed(names), strict=True):
        held = bytes([2 * len(place)]) + place.encode() + bytes([2 * len(value)]) + value
        at = data.rindex(held, 0, at)
        renamed[at + 1 : at + 1 + len(name)] = name
    return bytes(renamed)


def test_what_comes_before_a_damaged_batch_is_delivered_and_it_is_named() -> None:
    damaged = bytearray(batch(12, [Written()]))
    damaged[-1] ^= 1
    found = fetched(batch(10, [Written(), Written()]) + bytes(damaged), 10, is_undecoded=True)
    assert [record.offset for record in next(found)] == [10, 11]
    with pytest.raises(CorruptRecordException):
        next(found)
    assert found.next_fetch_offset == 12


@pytest.mark.parametrize(
    ("magic", "length"), [(1, -12), (1, -13), (1, 0), (1, 13), (2, -12), (2, 0), (2, 14), (2, 48)]
)
def test_a_length_that_no_batch_has_is_corrupt(magic: int, length: int) -> None:
    damaged = bytearray(batch(12, [Written()]))
    struct.pack_into(">i", damaged, 8, length)
    damaged[16] = magic
    found = fetched(batch(10, [Written(), Written()]) + bytes(damaged), 10, is_undecoded=True)
    assert [record.offset for record in next(found)] == [10, 11]
    with pytest.raises(CorruptRecordException):
        next(found)
    assert found.next_fetch_offset == 12


async def test_an_aiokafka_that_looks_different_inside_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer: Any = SimpleNamespace(_fetcher=SimpleNamespace())
    assert kafka_chunks.fetch_undecoded(consumer)
    assert consumer._fetcher._proc_fetch_request.__self__ is consumer._fetcher

    class Another(aiokafka_fetcher.PartitionRecords):  # type: ignore[misc]
        def __init__(self, everything: object) -> None: ...

    monkeypatch.setattr(kafka_chunks, "PartitionRecords", Another)
    untouched: Any = SimpleNamespace(_fetcher=SimpleNamespace())
    assert not kafka_chunks.fetch_undecoded(untouched)
    assert not vars(untouched._fetcher)
    assert AIOKafkaConsumer  # the public client needs nothing of this


def kept_of(kept: ChunkCache[int]) -> set[int]:
    return set(kept._kept)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 40), st.booleans()), max_size=60))
def test_both_ends_keep_the_same_batches(uses: list[tuple[int, int, bool]]) -> None:
    ours: ChunkCache[int] = ChunkCache(100)
    theirs: ChunkCache[bytes] = ChunkCache(100)
    sizes: dict[int, int] = {}
    for chunk_id, drawn, is_end in uses:
        size = sizes.setdefault(chunk_id, drawn)
        if ours.get(chunk_id) is None:
            drops = not ours.has_place_for(chunk_id, size)
            before = kept_of(ours)
            ours.put(chunk_id, chunk_id, size)
            theirs.put(chunk_id, bytes(size), size)
            assert drops == bool(before - kept_of(ours))
        assert theirs.get(chunk_id) == bytes(size)
        if is_end:
            ours.drop(chunk_id)
            theirs.drop(chunk_id)
            assert ours.get(chunk_id) is None


def with_a_damaged_batch() -> ChunkSlice:
    """Three chunks in one piece, as a fetch joins them; records 12 and 13 are of the second one."""
    damaged = bytearray(compressed(batch(12, [Written(), Written()]), codec=2))
    damaged[61:] = b"\xff" * len(damaged[61:])
    sound = (batch(first, [Written(value=b"1"), Written(value=b"2")]) for first in (10, 14))
    (piece,) = fetched(next(sound) + sealed(damaged) + next(sound), 10, is_undecoded=True)
    assert isinstance(piece, ChunkSlice)
    return piece


def test_a_batch_that_can_not_be_decoded_leaves_the_others_of_its_piece_alone() -> None:
    piece = with_a_damaged_batch()
    received = ReceivedChunk(bytes(piece.chunk.data), decode)
    records = [*received.read(0, 3), *received.read(3, 3)]
    for found in (records, piece):
        assert [record.offset for record in found] == list(range(10, 16))
        assert [found[at].value for at in (0, 1, 4, 5)] == [b"1", b"2", b"1", b"2"]
        for at in (2, 3):
            with pytest.raises(UndecodableError, match="can't be decoded"):
                _ = found[at].value


def test_a_batch_with_fewer_records_than_it_says_is_padded() -> None:
    data = bytearray(batch(10, [Written(), Written()]))
    struct.pack_into(">i", data, 57, 3)
    found = list(decode(sealed(data) + batch(13, [Written(value=b"next")])))
    assert [record.offset for record in found] == [10, 11, 12, 13]
    assert found[3].value == b"next"


@pytest.mark.parametrize("said", [2, 3, 4])
def test_one_batch_is_read_at_once_as_it_is_read_bit_by_bit(said: int) -> None:
    data = bytearray(batch(10, [Written(value=b"a", headers=[("h", b"1")]), Written(), Written()]))
    struct.pack_into(">i", data, 57, said)
    at_once, bit_by_bit = decode(sealed(data)).read(said), decode(sealed(data))
    pieces = [bit_by_bit.read(1)[0] for _ in range(said)]
    assert [it.offset for it in at_once] == [it.offset for it in pieces] == list(range(10, 10 + said))
    plain = min(said, 3)
    assert [(it.value, it.headers) for it in at_once[:plain]] == [
        (it.value, it.headers) for it in pieces[:plain]
    ]
    assert [type(it) for it in at_once] == [type(it) for it in pieces]


def test_batches_that_are_skipped_are_not_looked_into() -> None:
    piece = with_a_damaged_batch()
    assert [record.value for record in decode(piece.chunk.data, 4)] == [b"1", b"2"]


WRITES = """
    def handler(context, event):
        write(f"{event.offset} {event.body.decode()} {event.attempt} {context.worker_id}")
"""


async def test_a_batch_is_handled_in_order_and_settled(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES) as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, undecoded(0, 700))
        await b.settled(partition, 700)
        assert b.lines() == [f"{offset} {offset} 1 0" for offset in range(700)]


async def test_a_record_of_a_batch_that_fails_is_repeated_alone_and_the_rest_follows(tmp_path: Path) -> None:
    handler = """
    def handler(context, event):
        write(f"{event.offset} {event.attempt}")
        if event.offset == 7 and event.attempt < 3:
            raise ValueError("no")
    """
    async with bench(tmp_path, handler, workers=2) as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, undecoded(0, 12))
        await b.settled(partition, 12)
        rest = [f"{offset} 1" for offset in range(8, 12)]
        assert b.lines() == [*[f"{offset} 1" for offset in range(8)], "7 2", "7 3", *rest]


async def test_a_batch_follows_its_partition_to_another_worker(tmp_path: Path) -> None:
    handler = """
    def handler(context, event):
        if event.offset == 1 and not exists("killed"):
            write("", "killed")
            os.kill(os.getpid(), signal.SIGKILL)
        write(f"{event.offset} {event.body.decode()} {event.attempt}")
    """
    async with bench(tmp_path, handler, workers=2) as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, undecoded(0, 5))
        await b.settled(partition, 5)
        assert b.lines() == ["0 0 1", "1 1 2", "2 2 1", "3 3 1", "4 4 1"]


async def test_a_record_that_no_decoder_knows_fails_by_policy_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = bytearray(batch(0, [Written(value=b"0"), Written(value=b"1"), Written(value=b"2")]))
    data[data.rindex(b"1") + 1] = 5  # one header more than there is
    garbled = ChunkSlice(Chunk(0, 3, sealed(data), decode))
    async with bench(tmp_path, WRITES) as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, garbled)
        await b.settled(partition, 1)
        await until(lambda: is_stuck(partition))
        assert stuck_at(partition) == 1
        assert "can't be decoded" in problem(partition)
        assert b.lines() == ["0 0 1 0"]


async def test_a_dead_letter_of_a_record_that_can_not_be_decoded_ends_in_a_halt(tmp_path: Path) -> None:
    class Copies(Feed):
        async def write_dead_letter(self, _: AssignedPartition, record: WireRecord, *__: object) -> bool:
            return record.value is not None

    policy = DeliveryPolicy(failure=FailurePolicy(1, 0.0, then="deadLetter", dead_letter_topic="d"))
    async with bench(tmp_path, WRITES, policy=policy) as b:
        b.dispatcher.connect(Copies())
        (partition,) = b.assign(("t", 0), start=10)
        b.feed(partition, with_a_damaged_batch())
        await until(lambda: partition.lane.state is PartitionState.HALTED)
        assert stuck_at(partition) == 12
        assert "can't be decoded" in problem(partition)
        assert b.lines() == ["10 1 1 0", "11 2 1 0"]


async def test_a_batch_that_kills_its_worker_as_it_is_decoded_counts_as_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n"
        "from headrace.triggers.kafka.format import decoder as kafka_decoder\n"
        "class Deadly(kafka_decoder.ChunkReader):\n"
        "    def read(self, count):\n"
        "        records = super().read(count)\n"
        "        if any(record.value == b'0' for record in records):\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return records\n"
        "def decode(data, skip):\n"
        "    return Deadly(memoryview(data), skip, 1 << 20, must_live=False)\n"
    )
    policy = DeliveryPolicy(failure=FailurePolicy(2, 0.01, 0.01))
    async with bench(tmp_path, WRITES, policy=policy, decoder="deadly:decode") as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, undecoded(0, 3))
        await until(lambda: partition.lane.state is PartitionState.HALTED)
        assert stuck_at(partition) == 0
        assert "after 2 attempts" in problem(partition)
        assert not b.lines()


async def test_event_timeout_covers_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "endless.py").write_text(
        "import time\n\ndef decode(data, skip):\n    while True:\n        time.sleep(0.01)\n"
    )
    policy = DeliveryPolicy(failure=FailurePolicy(1), event_timeout_seconds=0.1)
    async with bench(tmp_path, WRITES, policy=policy, decoder="endless:decode") as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, undecoded(0, 3))
        await until(lambda: partition.lane.state is PartitionState.HALTED)
        assert "eventTimeout" in problem(partition)


async def test_more_batches_than_a_worker_keeps_are_not_sent_again_for_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    send = WorkerProcess.send

    def count(self: WorkerProcess, *pieces: Buffer) -> None:
        sent.append(sum(map(len, pieces)))
        send(self, *pieces)

    monkeypatch.setattr(WorkerProcess, "send", count)
    monkeypatch.setattr(worker_sender, "KEPT_SECONDS", 60)
    data = batch(0, [Written(value=bytes(900))] * 1000)
    async with bench(tmp_path, "def handler(context, event): pass") as b:
        partitions = b.assign(*(("t", number) for number in range(4)))
        for partition in partitions:
            b.dispatcher.add(partition, ChunkSlice(Chunk(0, 1000, data, decode)))
        b.dispatcher.dispatch()
        for partition in partitions:
            await b.settled(partition, 1000)
    # With turns of one run each, every run has its batch sent: dozens of times.
    assert sum(sent) < 8 * len(data)


def test_what_waits_is_weighed_as_it_comes_and_goes() -> None:
    partition = of_chunks(PartitionKey("t", 0), Checkpoint(0), 256, 0, ReadAhead(1 << 19))
    chunks, decoded = undecoded(0, 100), [Record(100 + i, bytes(1000 * i), b"k") for i in range(100)]
    partition.on_fetched(chunks)
    partition.on_fetched(decoded)
    weight = 100 * chunks.chunk.record_bytes + sum(1000 * i + 601 for i in range(100))
    assert partition.left_bytes == (1 << 19) - weight
    assert partition.to_fetch == 0
    while partition.lane.buffer.count:
        partition.lane.on_settled(partition.lane.take(30, 1 << 20))
    assert partition.left_bytes == 1 << 19
    assert partition.to_fetch == 256


def test_decoded_records_that_wait_count_against_the_capacity() -> None:
    partition = of_chunks(PartitionKey("t", 0), Checkpoint(0), 256, 0, ReadAhead(1 << 30))
    partition.on_fetched([Record(offset) for offset in range(100)])
    assert partition.to_fetch == 156
    partition.on_fetched([Record(offset) for offset in range(100, 200)])
    assert partition.to_fetch == 0


def test_a_fetch_is_asked_for_no_more_items_than_have_place() -> None:
    limit = FetchItemLimit()
    left_bytes = of_chunks(PartitionKey("t", 0), Checkpoint(0), 256, 0, ReadAhead(1 << 20)).left_bytes
    assert limit.items(left_bytes) == (1 << 20) // kafka_chunks.PIECE_BYTES
    limit.brought(10, 10 << 19)
    assert limit.items(left_bytes) == 2
    limit.brought(1, 1 << 23)
    assert limit.items(left_bytes) == 1
    for _ in range(20):
        limit.brought(100, 100 << 10)
    assert limit.items(left_bytes) == 1 << 10
