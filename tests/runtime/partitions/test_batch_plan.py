"""What a partition keeps of its batch plan."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_bench import records

from headrace.runtime.dispatch.plan_committer import extend_plan
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.batch_plan import BatchPlan
from headrace.runtime.partitions.offsets.checkpoint import MOST_PLANNED, Checkpoint, PlannedBatches
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.partitions.record_buffer import RecordBuffer

KEY = PartitionKey("t", 0)


def handed_out(kept: BatchPlan) -> BatchPlan:
    kept.propose(PlannedBatches(0, 2))
    kept.on_taken(0)
    return kept


def test_a_batch_comes_again_as_it_was_after_one_death() -> None:
    kept = handed_out(BatchPlan(None))
    assert kept.may_repeat_after_death()
    assert not kept.may_repeat_after_death()


def test_a_death_before_a_failure_is_not_one_of_the_batch_behind_it() -> None:
    kept = handed_out(BatchPlan(None))
    assert kept.may_repeat_after_death()
    kept.drop_started()
    assert handed_out(kept).may_repeat_after_death()


def planned(*ends: int) -> BatchPlan:
    """Batches that end there, each from where the one before it ends, and a commit has told of them."""
    kept = BatchPlan(None)
    kept.extend(list(zip((0, *ends), ends, strict=False)))
    kept.on_safe(kept.told())
    return kept


def test_a_batch_goes_only_once_a_commit_has_told_of_it() -> None:
    kept = BatchPlan(None)
    kept.extend([(0, 2), (2, 4)])
    told = kept.told()
    kept.extend([(4, 6)])
    assert [kept.safe_end(offset) for offset in (0, 3, 5)] == [None] * 3
    kept.on_safe(told)
    assert [kept.safe_end(offset) for offset in (0, 3, 5, 6)] == [2, 4, None, None]
    assert not kept.is_safe


def test_a_commit_says_nothing_of_a_batch_that_was_dropped_and_made_anew_since_it_began() -> None:
    kept = BatchPlan(None)
    kept.extend([(0, 2), (2, 4)])
    told = kept.told()
    kept.drop_at(2)
    kept.extend([(2, 4)])
    kept.on_safe(told)
    assert kept.safe_end(2) is None


def test_whatever_becomes_of_a_batch_those_behind_it_stay() -> None:
    for end in ("succeeds", "fails", "kills its worker twice"):
        kept = planned(2, 4, 6)
        kept.on_taken(0)
        if end == "succeeds":
            kept.on_outcome(is_kept=False)
        elif end == "fails":
            kept.on_failed([(1, 2)])
        else:
            assert kept.may_repeat_after_death()
            assert kept.planned == PlannedBatches(0, 2, behind=((2, 4), (4, 6)))
            assert not kept.may_repeat_after_death()
            kept.drop_started()
        kept.drop_started()  # said again, of what is over
        assert kept.planned == PlannedBatches(2, 4, behind=((4, 6),))
        assert kept.safe_end(2) == 4


def test_what_failed_is_planned_again_before_those_behind_it_and_is_not_safe_before_that() -> None:
    kept = planned(4, 8)
    kept.on_taken(0)
    kept.on_failed([(1, 2)])
    kept.propose(PlannedBatches(1, 4))
    assert kept.planned == PlannedBatches(1, 4, behind=((4, 8),))
    assert kept.safe_end(1) is None
    assert kept.safe_end(4) == 8


def test_what_names_a_session_goes_by_a_commit_of_its_own() -> None:
    kept = BatchPlan(PlannedBatches(0, 2, "session", ((2, 4),)))
    kept.on_safe(kept.told())
    assert kept.safe_end(0) is None


def test_what_nobody_has_begun_is_not_planned_for_the_next_owner() -> None:
    kept = planned(2, 4, 6)
    kept.on_taken(0)
    kept.on_revoked()
    assert kept.planned == PlannedBatches(0, 2)
    kept.on_outcome(is_kept=False)
    assert kept.told()[1] == ()
    kept = BatchPlan(PlannedBatches(0, 2, behind=((2, 4),)))  # an earlier owner may have begun both
    kept.extend([(4, 6)])
    kept.on_revoked()
    assert kept.planned == PlannedBatches(0, 2, behind=((2, 4),))


def batches_of(start: Checkpoint, size: int) -> list[tuple[int, int]]:
    """Those that an owner from there on hands out of twelve records, by its own batchSize."""
    partition = of_records(KEY, start, 256)
    partition.on_fetched(records(0, 12)[start.offset :])
    found: list[tuple[int, int]] = []
    while True:
        extend_plan(partition, size)
        partition.plan.on_safe(partition.plan.told())
        first = partition.lane.buffer.next_offset
        if first is None or (end := partition.plan.safe_end(first)) is None:
            return found
        for taken in partition.lane.take_batch(end):
            partition.lane.on_settled(taken)
        found.append((first, end))


@pytest.mark.parametrize("size", [2, 6])
def test_another_batch_size_is_for_what_nobody_may_have_begun(size: int) -> None:
    """A killed owner may have begun all that its last commit tells of; one that stops knows what it has."""
    owner = of_records(KEY, Checkpoint(0), 256)
    owner.on_fetched(records(0, 12))
    extend_plan(owner, 4)
    owner.plan.on_safe(owner.plan.told())
    of_a_killed_one = owner.checkpoint
    assert batches_of(of_a_killed_one, size) == [(0, 4), (4, 8), (8, 12)]
    owner.lane.take_batch(4)
    owner.revoke()
    of_a_stopped_one = owner.checkpoint
    rest = [(first, first + size) for first in range(4, 12 - size + 1, size)]
    assert batches_of(of_a_stopped_one, size) == [(0, 4), *rest]
    # Whoever stops after a killed one knows only what that may have begun.
    second = of_records(KEY, of_a_killed_one, 256)
    second.on_fetched(records(0, 12))
    second.revoke()
    assert batches_of(second.checkpoint, size) == [(0, 4), (4, 8), (8, 12)]


def test_a_commit_tells_of_so_many_batches_and_no_more() -> None:
    kept = BatchPlan(None)
    kept.extend([(at, at + 1) for at in range(2 * MOST_PLANNED)])
    assert kept.planned is not None
    assert kept.planned.batches == tuple((at, at + 1) for at in range(MOST_PLANNED))


def test_a_plan_that_is_only_of_a_session_leaves_nothing_before_those_that_are_made() -> None:
    """A commit would tell of none of them: it has no words for an empty batch."""
    kept = BatchPlan(PlannedBatches(5, 5))
    kept.extend([(5, 7), (7, 9)])
    assert kept.planned == PlannedBatches(5, 7, behind=((7, 9),))


@pytest.mark.parametrize("end", [lambda kept: kept.on_outcome(is_kept=False), BatchPlan.drop_started])
def test_what_lies_behind_a_batch_has_not_run_in_its_session(end: Callable[[BatchPlan], None]) -> None:
    kept = BatchPlan(PlannedBatches(0, 2, "old", ((2, 4),)))
    kept.name_session(0, "new")
    kept.on_taken(0)
    end(kept)
    assert kept.planned == PlannedBatches(2, 4)


def test_a_commit_that_ends_late_makes_nothing_safe_that_is_over() -> None:
    kept = BatchPlan(None)
    kept.extend([(0, 4), (4, 8)])
    told = kept.told()
    kept.on_taken(0)
    kept.on_outcome(is_kept=False)
    kept.on_safe(told)
    kept.propose(PlannedBatches(0, 4))
    assert kept.safe_end(0) is None
    assert kept.safe_end(4) == 8


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=8),
    st.integers(1, 6),
    st.integers(0, 40),
)
def test_full_batches_follow_each_other_and_have_just_so_many_records(
    runs: list[tuple[int, int]], size: int, above: int
) -> None:
    buffer, at = RecordBuffer(), 0
    for gap, count in runs:
        buffer.append(records(at + gap, count))
        at += gap + count
    offsets = [offset for offset in buffer.offsets(99) if offset >= above]
    batches = buffer.full_batches(size, above)
    assert len(batches) == len(offsets) // size
    for number, (first, end) in enumerate(batches):
        assert [it for it in offsets if first <= it < end] == offsets[number * size : (number + 1) * size]
        assert first == (batches[number - 1][1] if number else offsets[0])


def partition_of(count: int, start: Checkpoint | None = None) -> AssignedPartition:
    partition = of_records(KEY, start or Checkpoint(0), 64)
    partition.on_fetched(records(0, count))
    return partition


def test_full_batches_are_planned_behind_what_is_planned() -> None:
    partition = partition_of(11)
    assert extend_plan(partition, 4)
    assert partition.checkpoint.plan == PlannedBatches(0, 4, behind=((4, 8),))
    partition.on_fetched(records(11, 1))
    assert extend_plan(partition, 4)
    assert partition.checkpoint.plan == PlannedBatches(0, 4, behind=((4, 8), (8, 12)))
    partition.plan.on_safe(partition.plan.told())
    assert not extend_plan(partition, 4)


@pytest.mark.parametrize(
    "start", [Checkpoint(0, ((1, 2, 1),)), Checkpoint(0, plan=PlannedBatches(0, 4, "session"))]
)
def test_what_failed_or_names_a_session_is_not_planned_ahead(start: Checkpoint) -> None:
    partition = partition_of(12, start)
    assert not extend_plan(partition, 4)
    assert partition.checkpoint.plan == start.plan


def test_after_a_restart_each_planned_batch_has_room_as_a_whole_and_only_the_next() -> None:
    partition = of_records(KEY, Checkpoint(0, plan=PlannedBatches(0, 40, behind=((40, 90),))), 4)
    assert partition.to_fetch == 40
    partition.on_fetched(records(0, 40))
    assert partition.missing_of_plan == 0
    assert partition.to_fetch == 0
    partition.lane.on_settled(*partition.lane.take_batch(40))
    assert partition.to_fetch == 50
