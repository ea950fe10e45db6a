"""The processor's book of what a worker holds, against a plain list."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_bench import records

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import of_records
from headrace.runtime.wire.framing import ProtocolViolationError
from headrace.runtime.wire.progress_slot import Progress, ProgressSlot
from headrace.runtime.workers.in_flight import InFlight


def slot_at(seq: int, *, is_running: bool) -> ProgressSlot:
    """It says that."""
    slot: Any = SimpleNamespace(read=lambda: Progress(seq, is_running, since_ns=5))
    return cast(ProgressSlot, slot)


def filled(lengths: list[int]) -> tuple[InFlight, list[tuple[int, int]]]:
    """Runs of these lengths, each of its own partition; and (partition number, offset) by seq."""
    in_flight = InFlight()
    book: list[tuple[int, int]] = []
    for number, length in enumerate(lengths):
        partition = of_records(PartitionKey("t", number), Checkpoint(100), 256)
        header = in_flight.add(partition.lane, records(100, length))
        assert header.first_seq == len(book)
        book += [(number, offset) for offset in range(100, 100 + length)]
    return in_flight, book


lengths = st.lists(st.integers(1, 6), min_size=1, max_size=6)


@given(lengths, st.data())
def test_what_lies_before_a_seq_is_settled_once(lengths: list[int], data: st.DataObject) -> None:
    in_flight, book = filled(lengths)
    settled: list[tuple[int, int]] = []
    for seq in sorted(data.draw(st.lists(st.integers(0, len(book)), max_size=5))):
        for lane, done in in_flight.settle_before(seq):
            settled += [(lane.key.partition, record.offset) for record in done]
        assert settled == book[:seq]
        assert len(in_flight) == len(book) - seq


@given(lengths, st.data())
def test_tails_come_back_and_the_rest_stays(lengths: list[int], data: st.DataObject) -> None:
    in_flight, book = filled(lengths)
    number = data.draw(st.integers(0, len(lengths) - 1))
    end = sum(lengths[: number + 1])
    first = data.draw(st.integers(end - lengths[number], end - 1))
    with pytest.raises(ProtocolViolationError, match="gives back"):  # nobody has asked
        in_flight.take_back(first, end)
    in_flight.runs[number].lane.on_recalled()
    lane, returned = in_flight.take_back(first, end)
    assert [(lane.key.partition, record.offset) for record in returned] == book[first:end]
    rest = [(lane.key.partition, r.offset) for lane, done in in_flight.settle_before(len(book)) for r in done]
    assert rest == book[:first] + book[end:]


@given(lengths)
def test_only_the_first_record_in_flight_can_have_failed(lengths: list[int]) -> None:
    in_flight, book = filled(lengths)
    assert in_flight.take(len(book)) is None
    for seq, (number, offset) in enumerate(book):
        taken = in_flight.take(seq)
        assert taken is not None
        assert (taken[0].key.partition, [record.offset for record in taken[1]]) == (number, [offset])


@given(lengths, st.data())
def test_what_the_slot_names_is_found_until_its_outcome_has_come(
    lengths: list[int], data: st.DataObject
) -> None:
    in_flight, book = filled(lengths)
    done = data.draw(st.integers(0, len(book)))
    assert list(in_flight.settle_before(done)) or not done
    for seq in range(len(book) + 2):
        running_now = in_flight.running(slot_at(seq, is_running=True))
        assert len(running_now) == (done <= seq < len(book))
        for running in running_now:
            found = running.lane.key.partition, running.record.offset
            assert (running.seq, running.since_ns, found) == (seq, 5, book[seq])
        assert not in_flight.running(slot_at(seq, is_running=False))


@given(lengths, st.data())
def test_a_worker_straggles_until_the_slow_record_is_done(lengths: list[int], data: st.DataObject) -> None:
    in_flight, book = filled(lengths)
    assert not in_flight.is_straggling
    slow = data.draw(st.integers(0, len(book) - 1))
    in_flight.slow = frozenset({slow})
    for seq in range(len(book) + 1):
        list(in_flight.settle_before(seq))
        assert in_flight.is_straggling == (seq <= slow)


@given(lengths, st.data())
def test_where_records_overlap_each_run_ends_in_its_own_order_whatever_the_others_do(
    lengths: list[int], data: st.DataObject
) -> None:
    in_flight = InFlight()
    in_flight.seats = data.draw(st.integers(2, 8))
    open_runs: dict[int, list[int]] = {}
    for number, length in enumerate(lengths):
        partition = of_records(PartitionKey("t", number), Checkpoint(0), 64)
        partition.on_fetched(records(0, length))
        first = in_flight.add(partition.lane, partition.lane.take(64, 1 << 20)).first_seq
        open_runs[number] = list(range(first, first + length))
    while open_runs:
        number = data.draw(st.sampled_from(sorted(open_runs)))
        seqs = open_runs[number]
        assert all(in_flight.take(seq) is None for seq in seqs[1:]), "before those that it follows"
        found = in_flight.find(seqs[-1])
        assert found is not None
        assert found[0].key.partition == number
        taken = in_flight.take(seqs.pop(0))
        assert taken is not None
        assert taken[0].key.partition == number
        if not seqs:
            del open_runs[number]
        assert len(in_flight) == sum(map(len, open_runs.values()))
        assert in_flight.has_free_seat == (len(open_runs) < in_flight.seats)
    assert not in_flight.runs
    assert not in_flight._run_by_seq
