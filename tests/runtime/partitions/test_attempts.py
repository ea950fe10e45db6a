"""What a partition remembers of records that failed, until they are settled."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.partitions.flow_control import ReadAhead
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.failed_records import FailedRecord, FailedRecords, FailedSpans
from headrace.runtime.partitions.partition import AssignedPartition, of_chunks, of_ranges, of_records

KEY = PartitionKey("t", 0)
OFFSETS = range(40)
SPANS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6), st.integers(1, 3)), max_size=8)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fail", "forget", "acked", "below", "refuse", "ask"]), st.sampled_from(OFFSETS)
    ),
    max_size=30,
)


def test_an_ack_of_several_leaves_the_attempts_of_records_that_are_still_to_be_fetched() -> None:
    partition = of_records(KEY, Checkpoint(0, attempts=((7, 8, 2),)), 16)
    partition.on_acked(0, 3)
    assert partition.checkpoint == Checkpoint(3, attempts=((7, 8, 2),))
    partition.on_acked(5, 9)
    assert partition.checkpoint.attempts == ()


@given(SPANS, STEPS)
def test_what_a_commit_said_is_known_of_each_record_as_if_it_had_been_said_one_by_one(
    gaps: list[tuple[int, int, int]], steps: list[tuple[str, int]]
) -> None:
    said, at = [], 0
    for gap, length, failures in gaps:
        said.append((at + gap, at + gap + length, failures))
        at += gap + length
    failed: FailedRecords = FailedSpans(said)
    failed.judge_all(spent_at_3)
    each = {offset: failures for first, end, failures in said for offset in range(first, end)}
    refused = {offset for offset, failures in each.items() if failures >= 3}
    for step, offset in steps:
        if step == "fail":
            failed.note_failure(offset, "no", 1, None)
            each[offset] = each.get(offset, 0) + 1
        elif step == "refuse":
            failed.refuse(offset, "unreadable")
            each[offset] = 0
            refused.add(offset)
        elif step == "forget":
            failed.forget([offset])
            each.pop(offset, None)
        elif step == "acked":
            failed.forget_within(offset, offset + 5)
            each = {at: n for at, n in each.items() if not offset <= at < offset + 5}
        elif step == "below":
            failed.forget_below(offset)
            each = {at: n for at, n in each.items() if at >= offset}
        refused &= each.keys()
        assert failed.attempt(offset) == each.get(offset, 0) + 1
        assert failed.nearest_above(offset) == min((at for at in each if at > offset), default=None)
        assert bool(failed) == bool(each)
    told = {at: n for first, end, n in failed.attempts(0) for at in range(first, end)}
    assert told == {at: n for at, n in each.items() if n}
    assert {at for at in each if failed.is_refused(at)} == refused
    assert all((at in failed) == (at in each) for at in OFFSETS)


def spent_at_3(offset: int, failed: FailedRecord) -> None:
    failed.is_refused = failed.failures >= 3


@pytest.mark.parametrize(
    "make",
    [
        lambda start: of_records(KEY, start, 16),
        lambda start: of_chunks(KEY, start, 16, 0, ReadAhead(1 << 19)),
        lambda start: of_ranges(KEY, start),
    ],
)
def test_a_few_characters_of_a_commit_cost_little_whatever_they_stand_for(
    make: Callable[[Checkpoint], AssignedPartition],
) -> None:
    start = Checkpoint(5, ((5, 2**40, 9),), PlannedBatches(5, 2**40), ((2**40, 2**41),))
    tracemalloc.start()
    partition = make(start)
    partition.checkpoint.attempts  # noqa: B018
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 16
    assert partition.failed.attempt(2**39) == (1 if partition.lane.buffer.holds_ranges else 10)


@given(st.integers(0, 50), st.integers(0, 120))
def test_a_plan_that_lies_further_on_takes_no_room_before_the_fetch_is_there(position: int, end: int) -> None:
    partition = of_records(KEY, Checkpoint(0, plan=PlannedBatches(60, 60 + end)), 16)
    partition.advance(position)
    assert partition.to_fetch == 16


@given(st.integers(0, 100))
def test_nothing_beyond_the_end_of_a_log_is_believed(end: int) -> None:
    told = Checkpoint(5, ((5, 10, 1), (20, 30, 2)), PlannedBatches(5, 40), ((50, 60), (70, 80)))
    kept = told.within(end)
    assert kept.offset == 5
    for spans, of in ((kept.attempts, told.attempts), (kept.acked, told.acked)):
        assert spans == tuple(span for span in of if span[1] <= end)
    assert kept.plan == (told.plan if end >= 40 else None)
