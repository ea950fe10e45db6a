"""The processor's book of what a worker holds, against a plain list."""

from hypothesis import given
from hypothesis import strategies as st
from worker_bench import records

from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.workers.in_flight import InFlight


def filled(lengths: list[int]) -> tuple[InFlight, list[tuple[int, int]]]:
    """Runs of these lengths, each of its own partition; and (partition number, offset) by seq."""
    in_flight = InFlight()
    book: list[tuple[int, int]] = []
    for number, length in enumerate(lengths):
        partition = AssignedPartition("t", number, Checkpoint(100), 256)
        header = in_flight.add(partition, records(100, length))
        assert header.first_seq == len(book)
        book += [(number, offset) for offset in range(100, 100 + length)]
    return in_flight, book


lengths = st.lists(st.integers(1, 6), min_size=1, max_size=6)


@given(lengths, st.data())
def test_what_lies_before_a_seq_is_settled_once(lengths: list[int], data: st.DataObject) -> None:
    in_flight, book = filled(lengths)
    settled: list[tuple[int, int]] = []
    for seq in sorted(data.draw(st.lists(st.integers(0, len(book)), max_size=5))):
        for partition, done in in_flight.settle_before(seq):
            settled += [(partition.partition, record.offset) for record in done]
        assert settled == book[:seq]
        assert len(in_flight) == len(book) - seq


@given(lengths, st.data())
def test_tails_come_back_and_the_rest_stays(lengths: list[int], data: st.DataObject) -> None:
    in_flight, book = filled(lengths)
    number = data.draw(st.integers(0, len(lengths) - 1))
    end = sum(lengths[: number + 1])
    first = data.draw(st.integers(end - lengths[number], end - 1))
    partition, returned = in_flight.take_back(first, end)
    assert [(partition.partition, record.offset) for record in returned] == book[first:end]
    rest = [(p.partition, r.offset) for p, done in in_flight.settle_before(len(book)) for r in done]
    assert rest == book[:first] + book[end:]


@given(lengths)
def test_only_the_first_record_in_flight_can_have_failed(lengths: list[int]) -> None:
    in_flight, book = filled(lengths)
    assert in_flight.take(len(book)) is None
    for seq, (number, offset) in enumerate(book):
        taken = in_flight.take(seq)
        assert taken is not None
        assert (taken[0].partition, [record.offset for record in taken[1]]) == (number, [offset])
