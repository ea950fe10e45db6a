"""Ranges of offsets, decided without workers: what is handed out, what comes again, what a commit says."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from acks_alone import acks_alone
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.runtime.config.delivery_policy import DeliveryPolicy, FailurePolicy
from headrace.runtime.dispatch.batcher import BatchPart, next_part
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.partition import AssignedPartition, of_ranges
from headrace.runtime.partitions.range_buffer import OffsetRange
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.outcomes import Ack

Span = tuple[int, int]
POLICY = FailurePolicy(max_attempts=2, backoff_seconds=0, then="halt")


def partition(end: int = 0, start: Checkpoint | None = None) -> AssignedPartition:
    p = of_ranges(PartitionKey("t", 0), start or Checkpoint(0))
    p.extend(end)
    return p


def take(p: AssignedPartition, size: int) -> list[OffsetRange]:
    """As a batch of its own, planned and handed out."""
    part = next_part(p, size)
    assert isinstance(part, BatchPart)
    plan = part.plan
    p.propose(plan)
    p.lane.become(PartitionState.ACTIVE)
    (taken,) = p.lane.take_batch(plan.end)
    return list(taken)  # type: ignore[arg-type]  # a range buffer's


def fail(p: AssignedPartition, ranges: Sequence[Any], among: int = 1) -> bool:
    """Whether its one offset has spent its attempts. Then it goes on, as if somebody had said so."""
    p.lane.on_failed(ranges, "no", among)
    p.lane.on_returned(ranges)
    return asyncio.run(_decide(p))


async def _decide(p: AssignedPartition) -> bool:
    shared: Any = SimpleNamespace(policy=DeliveryPolicy(failure=POLICY), metrics=MagicMock(), feed=Feed())
    resumed = asyncio.Event()
    failures = FailureHandler(shared, lambda _: resumed.set())
    failures.after_failure(p, p.lane)
    if is_last := p.lane.state is PartitionState.HALTED:
        failures.retry(p.lane)
    await resumed.wait()
    await failures.stop()
    return is_last


def ack(p: AssignedPartition, offset: int) -> None:
    """As dispatch takes one."""
    first = p.acked_by(offset)
    if first is not None:
        p.on_acked(first, offset + 1)


def spans(ranges: Sequence[OffsetRange]) -> list[Span]:
    return [(r.first, r.end) for r in ranges]


def test_a_range_is_as_long_as_a_batch_and_nothing_goes_beside_it() -> None:
    p = partition(25)
    assert p.lane.buffer.count == 25
    first = take(p, 10)
    assert spans(first) == [(0, 10)]
    assert not p.lane.is_deliverable
    p.extend(40)
    p.lane.on_settled(first)
    assert p.checkpoint == Checkpoint(10)
    assert spans(take(p, 100)) == [(10, 40)]


def test_offsets_that_were_acked_before_are_in_no_range() -> None:
    p = partition(10, Checkpoint(0, acked=((3, 5), (8, 12))))
    assert spans(take(p, 6)) == [(0, 3), (5, 8)]
    p.extend(20)
    assert p.lane.buffer.count == 8


def test_a_range_that_failed_comes_again_as_it_was_then_by_halves_until_one_is_left() -> None:
    p = partition(8)
    seen = []
    while p.lane.buffer.next_offset is not None and p.lane.buffer.next_offset < 8:
        ranges = take(p, 8)
        seen.append(spans(ranges)[0])
        p.extend(20)  # what comes later is no reason to go on with less
        if any(r.first <= 5 < r.end for r in ranges):
            if fail(p, ranges):
                p.on_acked(5, 5 + 1)
        else:
            p.lane.on_settled(ranges)
    assert seen == [(0, 8), (0, 8), (0, 4), (4, 8), (4, 6), (4, 5), (5, 6), (6, 8)]
    assert p.checkpoint == Checkpoint(8)
    assert spans(take(p, 100)) == [(8, 20)]


def test_a_new_owner_repeats_the_planned_range_even_when_its_attempts_are_spent() -> None:
    p = partition(8)
    fail(p, take(p, 8))
    assert p.checkpoint == Checkpoint(0, ((0, 8, 1),), PlannedBatches(0, 8))
    again = partition(0, Checkpoint(0, ((0, 8, 9),), PlannedBatches(0, 8, "session")))
    again.extend(7)
    assert next_part(again, 3) is None  # not there as a whole
    again.extend(9)
    assert again.plan.of(again.lane.buffer.next_offset) == PlannedBatches(0, 8, "session")
    ranges = take(again, 3)
    assert spans(ranges) == [(0, 8)]
    fail(again, ranges)
    assert spans(take(again, 8)) == [(0, 4)]


def test_ranges_of_a_worker_that_died_come_once_more_together_then_each_alone() -> None:
    p = partition(8)
    for _ in range(2):
        ranges = take(p, 8)
        p.lane.on_suspected(ranges)
        p.lane.on_returned(ranges)
    part = next_part(p, 100)
    assert part is not None
    assert part.is_fixed
    assert part.plan == PlannedBatches(0, 8)


def test_with_explicit_acks_the_next_range_and_the_end_of_the_plan_wait_for_the_ack() -> None:
    p = partition(20)
    ranges = take(p, 10)
    p.lane.on_unacked(ranges)
    assert not p.lane.is_deliverable
    assert p.checkpoint == Checkpoint(0, plan=PlannedBatches(0, 10))
    assert p.acked_by(4) is None
    assert p.acked_by(9) == 0
    p.on_acked(0, 10)
    assert spans(take(p, 5)) == [(10, 15)]
    assert p.checkpoint == Checkpoint(10, plan=PlannedBatches(10, 15))


def test_an_ack_of_a_range_that_an_earlier_owner_handed_out_names_all_of_it() -> None:
    p = partition(20, Checkpoint(2, plan=PlannedBatches(2, 10)))
    assert p.acked_by(9) == 2
    assert p.acked_by(5) is None
    assert p.acked_by(15) == 15
    p.on_acked(2, 10)
    assert p.checkpoint == Checkpoint(10)
    assert spans(take(p, 100)) == [(10, 20)]


def test_each_range_of_a_plan_with_a_hole_is_acked_by_itself() -> None:
    p = partition(10, Checkpoint(0, acked=((3, 5),)))
    ranges = take(p, 10)
    p.lane.on_unacked(ranges)
    again = partition(10, p.checkpoint)
    assert again.checkpoint.plan == PlannedBatches(0, 10)
    assert [again.acked_by(offset) for offset in (1, 2, 9)] == [None, 0, 5]
    again.on_acked(5, 10)
    assert again.checkpoint == Checkpoint(0, plan=PlannedBatches(0, 10), acked=((3, 10),))


def test_what_failed_goes_again_while_another_range_waits_for_its_ack() -> None:
    p = partition(10, Checkpoint(0, acked=((3, 5),)))
    first, second = take(p, 10)
    fail(p, [first])
    p.lane.on_unacked([second])
    p.lane.become(PartitionState.ACTIVE)
    assert p.lane.is_deliverable
    assert spans(take(p, 10)) == [(0, 3)]


def test_the_second_half_of_a_range_waits_for_the_ack_of_the_first() -> None:
    p = partition(8)
    for _ in range(POLICY.max_attempts):
        fail(p, take(p, 8))
    for first, end in ((0, 4), (4, 8)):
        ranges = take(p, 8)
        assert spans(ranges) == [(first, end)]
        p.lane.on_unacked(ranges)
        assert not p.lane.is_deliverable
        assert p.acked_by(end - 2) is None
        ack(p, end - 1)
    assert p.checkpoint == Checkpoint(8)
    assert not p.awaiting_ack


def test_the_halves_that_were_not_acked_come_again_as_they_were_to_a_new_owner() -> None:
    p = partition(8)
    for _ in range(POLICY.max_attempts):
        fail(p, take(p, 8))
    given = []
    while p.lane.is_deliverable:
        ranges = take(p, 8)
        given += spans(ranges)
        p.lane.on_unacked(ranges)
    again = partition(20, p.checkpoint)
    # Whoever was given [0, 4) and [4, 8) before may have kept 7 for the second one alone.
    assert [(again.acked_by(end - 1), end) for _, end in given] == given
    assert spans(take(again, 20)) == given[:1]


def test_a_range_beside_one_that_is_halved_is_still_acked_as_a_whole() -> None:
    p = partition(10, Checkpoint(0, acked=((3, 5),)))
    first, second = take(p, 10)
    p.lane.on_unacked([first])
    for _ in range(POLICY.max_attempts):
        fail(p, [second])
        second = take(p, 10)[0]
    assert spans([second]) == [(5, 7)]
    ack(p, 2)
    assert p.checkpoint.offset == 5


def test_no_plan_that_waits_for_acks_names_a_session() -> None:
    p = partition(10)
    part = next_part(p, 4)
    assert part is not None
    p.propose(part.plan)
    p.plan.name_session(p.lane.buffer.next_offset, "session")
    p.lane.become(PartitionState.ACTIVE)
    p.lane.on_unacked(*p.lane.take_batch(4))
    assert p.checkpoint.plan == PlannedBatches(0, 4)


def test_a_range_that_is_being_halved_is_still_known_to_a_new_owner() -> None:
    p = partition(8)
    for _ in range(POLICY.max_attempts):
        fail(p, take(p, 8))
    assert p.checkpoint == Checkpoint(0, ((0, 8, 2),))
    again = partition(20, p.checkpoint)
    ranges = take(again, 100)
    assert spans(ranges) == [(0, 8)]
    fail(again, ranges)
    again.lane.on_settled(take(again, 100))
    assert again.checkpoint == Checkpoint(4, ((4, 8, 3),))
    assert spans(take(partition(20, again.checkpoint), 100)) == [(4, 8)]


@dataclass
class Model:
    """Plays a partition's life with random outcomes and crashes, and checks what is promised of it."""

    partition: AssignedPartition = field(default_factory=partition)
    settled: Counter[int] = field(default_factory=Counter)
    planned: PlannedBatches | None = None  # by the last commit
    end: int = 0

    def grow(self, count: int) -> None:
        self.end += count
        self.partition.extend(self.end)

    def batch(self, size: int, outcome: str) -> None:
        p = self.partition
        if not p.lane.is_deliverable or p.missing_of_plan:
            return
        ranges = take(p, size)
        given = {offset for first, end in spans(ranges) for offset in range(first, end)}
        assert given
        assert not any(self.settled[offset] for offset in given)
        self.planned = p.checkpoint.plan
        assert self.planned is not None
        assert self.planned.first <= min(given)
        assert self.planned.end == max(given) + 1
        match outcome:
            case "handled":
                p.lane.on_settled(ranges)
                self.settled.update(given)
            case "failed":
                if fail(p, ranges) and p.lane.buffer.next_offset is not None:
                    self.settled[p.lane.buffer.next_offset] += 1
                    p.on_acked(p.lane.buffer.next_offset, p.lane.buffer.next_offset + 1)
            case "returned":
                p.lane.on_returned(ranges)
            case "crash":
                self.crash(given)

    def crash(self, given: set[int]) -> None:
        said = self.partition.checkpoint
        assert all(self.settled[offset] for offset in range(said.offset))
        self.partition = partition(self.end, said)
        if given:  # exactly these come again, and nothing with them
            again = take(self.partition, 1)
            assert {o for first, end in spans(again) for o in range(first, end)} == given
            self.partition.lane.on_settled(again)
            self.settled.update(given)


steps = st.lists(
    st.tuples(
        st.integers(0, 12), st.integers(1, 9), st.sampled_from(["handled", "failed", "returned", "crash"])
    ),
    max_size=40,
)


@given(steps)
def test_every_offset_is_settled_once_and_what_was_planned_comes_again(
    steps: list[tuple[int, int, str]],
) -> None:
    model = Model()
    for count, size, outcome in steps:
        model.grow(count)
        model.batch(size, outcome)
    while model.partition.lane.buffer.next_offset is not None:
        model.batch(5, "handled")
    assert model.partition.checkpoint == Checkpoint(model.end)
    assert model.settled == Counter(range(model.end))


def test_a_planned_range_that_is_acked_before_it_goes_splits_no_other() -> None:
    p = partition(0, Checkpoint(50, ((200, 250, 1),), None, ((150, 200),)))
    p.extend(250)
    part = next_part(p, 100)
    assert isinstance(part, BatchPart)
    assert part.plan == PlannedBatches(50, 150)
    p.propose(part.plan)
    p.on_acked(50, 150)  # late, while the plan is committed
    p.lane.become(PartitionState.ACTIVE)
    assert p.lane.take_batch(150) == []
    assert spans(take(p, 100)) == [(200, 250)]


@dataclass
class AckedModel:
    """A partition whose ranges are acked through their last offsets, some time after they were handled."""

    partition: AssignedPartition = field(default_factory=partition)
    out: list[Span] = field(default_factory=list)  # handled, and not acked

    def batch(self, size: int, failing: int) -> None:
        """Handle what comes; of several ranges in it, one fails."""
        p = self.partition
        if not p.lane.is_deliverable:
            return
        ranges = take(p, size)
        failed = {id(ranges[failing % len(ranges)])} if failing >= 0 else set()
        for unit in ranges:
            if id(unit) in failed:
                p.lane.on_failed([unit], "no", len(ranges))
            else:
                p.lane.on_unacked([unit])
                self.out.append((unit.first, unit.end))
        if failed:
            fail_again = [unit for unit in ranges if id(unit) in failed]
            p.lane.on_returned(fail_again)
            p.lane.become(PartitionState.ACTIVE)
            for offset in p.lane.failed_now:
                if POLICY.is_spent(p.failed[offset].failures):
                    p.failed[offset].batch_limit = max(p.failed[offset].among // 2, 1)
                    p.plan.drop_started()

    def ack(self, which: int) -> None:
        """One of those that are out, by its last offset; others inside it are refused."""
        if self.out:
            first, end = self.out.pop(which % len(self.out))
            assert all(self.partition.acked_by(inside) is None for inside in range(first, end - 1))
            ack(self.partition, end - 1)
            assert not any(self.partition.ledger.is_open(offset) for offset in range(first, end))


@given(
    st.sets(st.integers(0, 23), max_size=6),
    st.lists(st.tuples(st.integers(1, 9), st.integers(-2, 2), st.integers(-6, 6)), max_size=40),
)
@example({3, 4}, [(24, 1, -1)] * 3 + [(24, -1, 0)] * 3)
@example(set(), [(8, 0, -1)] * 2 + [(8, -1, -1), (8, -1, 0)])
def test_each_range_is_acked_as_a_whole_however_it_was_halved_and_in_whatever_order(
    holes: set[int], steps: list[tuple[int, int, int]]
) -> None:
    model = AckedModel(partition(24, Checkpoint(0, acked=tuple((o, o + 1) for o in sorted(holes)))))
    for size, failing, acked in steps:
        model.batch(size, failing)
        if acked >= 0:
            model.ack(acked)
    while model.out or model.partition.lane.is_deliverable:
        while model.out:
            model.ack(0)
        model.batch(5, -1)
    assert model.partition.checkpoint == Checkpoint(24)
    assert not model.partition.awaiting_ack


def test_the_rest_of_a_range_whose_message_was_refused_is_settled_by_no_ack_of_before() -> None:
    p = partition(4)
    acks = acks_alone()
    acks.begin([p])
    for _ in range(2):
        whole = take(p, 4)
        p.pending.reject(0)
        fail(p, whole)
    assert take(p, 4) == [OffsetRange(0, 2)]
    assert acks.settle(Ack("t", 0, 3, is_through=False)) is None  # of the whole one
    assert p.pending.rejected == {0: "runs", 2: "waits"}
    assert p.ledger.is_open(2)


def test_no_ack_names_a_range_that_waits_for_none_any_more() -> None:
    """It came again, in parts: the rest of it is something else."""
    p = partition(4)
    p.lane.on_unacked(p.lane.take_batch(4)[0])
    assert p.acked_by(3) == 0
    p.awaiting_ack.abandon(0)
    p.awaiting_ack.drop_orphans()
    p.settle(0, 2)
    assert list(p.awaiting_ack.ranges()) == []


def test_a_range_that_is_handed_out_holds_all_that_no_ack_of_before_settles() -> None:
    """Where ranges began elsewhere in the assignment before."""
    p = partition(4)
    p.pending.restore_rejected([2, 4], p.ledger)
    take(p, 4)
    assert p.pending.rejected == {0: "runs", 4: "waits"}
