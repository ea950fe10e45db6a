"""Which records make a batch, and what a result says of each: decided without workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace

import nuclio_sdk
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_bench import records

from headrace.runtime.config.delivery_policy import BatchPolicy
from headrace.runtime.dispatch.batcher import BatchChoice, choose_batch, next_part
from headrace.runtime.partitions.flow_control import FlowLimit
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.failed_records import FailedRecord
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.worker.results import HandlerReturnedError, RecordOutcome, batch_outcomes
from headrace.runtime.workers.in_flight import InFlight

NOW = 1000.0
TIMEOUT = 10.0


@dataclass(frozen=True)
class Waits:
    """What of a partition waits, and what is known of it."""

    count: int
    seconds: float
    plan: tuple[int, int] | None
    limits: dict[int, int | None]  # of records in trouble
    acked: set[int]

    def partition(self, number: int) -> AssignedPartition:
        plan = PlannedBatches(*self.plan) if self.plan else None
        acked = tuple((offset, offset + 1) for offset in sorted(self.acked))
        partition = of_records(PartitionKey("t", number), Checkpoint(0, plan=plan, acked=acked), 64)
        partition.on_fetched(records(0, self.count))
        partition.lane.waiting_since = NOW - self.seconds
        for offset, limit in self.limits.items():
            partition.failed[offset] = FailedRecord(failures=1, batch_limit=limit)
        return partition


offsets = st.integers(0, 14)
plans = st.tuples(offsets, st.integers(1, 8)).map(lambda plan: (plan[0], plan[0] + plan[1]))
waits = st.builds(
    Waits,
    count=st.integers(1, 12),
    seconds=st.floats(0, 2 * TIMEOUT),
    plan=st.none() | plans,
    limits=st.dictionaries(offsets, st.none() | st.integers(1, 4), max_size=5),
    acked=st.sets(st.integers(1, 14), max_size=4),
)


def ready(described: Sequence[Waits]) -> list[AssignedPartition]:
    found = [each.partition(number) for number, each in enumerate(described)]
    return [partition for partition in found if partition.lane.buffer.count]


def chosen(choice: BatchChoice) -> list[list[int]]:
    return [part.partition.lane.buffer.offsets(part.count) for part in choice.parts]


@given(st.lists(waits, max_size=5), st.integers(1, 12))
def test_a_batch_is_full_or_in_time_or_fixed(described: list[Waits], size: int) -> None:
    partitions = ready(described)
    choice = choose_batch(partitions, BatchPolicy(size, TIMEOUT), NOW)
    total = sum(part.count for part in choice.parts)
    assert len({part.partition.lane.id for part in choice.parts}) == len(choice.parts)
    if any(part.is_fixed for part in choice.parts):
        assert len(choice.parts) == 1
    elif choice.parts:
        oldest = max(NOW - part.partition.lane.waiting_since for part in choice.parts)
        assert total == size or (total < size and oldest >= TIMEOUT)
    else:
        assert not any(NOW - p.lane.waiting_since >= TIMEOUT and next_part(p, size) for p in partitions)


@given(st.lists(waits, max_size=5), st.integers(1, 12))
def test_what_is_not_handed_out_now_is_in_time(described: list[Waits], size: int) -> None:
    partitions = ready(described)
    policy = BatchPolicy(size, TIMEOUT)
    choice = choose_batch(partitions, policy, NOW)
    if choice.look_again_seconds is not None:
        assert not choice.parts
        assert 0 < choice.look_again_seconds <= TIMEOUT
        assert choose_batch(partitions, policy, NOW + choice.look_again_seconds + 1e-6).parts
    elif not choice.parts:
        assert all(next_part(partition, size) is None for partition in partitions)


@given(waits, st.integers(1, 12))
def test_a_part_keeps_to_its_plan_and_to_the_limits_of_its_records(described: Waits, size: int) -> None:
    for partition in ready([described]):
        part = next_part(partition, size)
        head, plan = partition.lane.buffer.head, partition.plan.planned
        assert head is not None
        is_planned = plan is not None and plan.first <= head.offset < plan.end
        if part is None:
            assert plan is not None
            assert is_planned
            assert partition.ledger.position < plan.end
            continue
        found = partition.lane.buffer.offsets(part.count)
        assert len(found) == part.count >= 1
        if is_planned and plan is not None:
            assert part.is_fixed
            assert partition.ledger.position >= plan.end, "all of it is here"
            assert found == [o for o in partition.lane.buffer.offsets(99) if o < plan.end]
            continue
        assert part.count <= size
        assert plan is None or not found[0] < plan.first <= found[-1]
        limits = [partition.failed.batch_limit(offset) for offset in found]
        assert len({limit is None for limit in limits}) == 1
        assert part.is_fixed == (limits[0] is not None)
        assert all(limit is None or part.count <= limit for limit in limits)


@given(st.lists(waits, min_size=1, max_size=4), st.integers(1, 12))
def test_batch_after_batch_takes_every_record_once_and_in_order(described: list[Waits], size: int) -> None:
    partitions = ready(described)
    for partition in partitions:
        partition.on_fetched(
            records(partition.ledger.position, 24)
        )  # whatever is planned is there as a whole
    expected = {partition.key.partition: partition.lane.buffer.offsets(99) for partition in partitions}
    plans = {partition.key.partition: partition.plan.planned for partition in partitions}
    handled: dict[int, list[int]] = {number: [] for number in expected}
    policy = BatchPolicy(size, TIMEOUT)
    while left := [partition for partition in partitions if partition.lane.buffer.count]:
        choice = choose_batch(left, policy, NOW + 2 * TIMEOUT)
        assert choice.parts
        for part in choice.parts:
            partition, planned = part.partition, part.plan
            partition.propose(planned)
            taken = list(chain(*partition.lane.take_batch(planned.end)))
            handled[partition.key.partition] += [record.offset for record in taken]
            partition.lane.on_settled(taken)
            if (plan := plans[partition.key.partition]) and taken[0].offset in range(plan.first, plan.end):
                assert taken[-1].offset < plan.end <= partition.ledger.position
                assert not partition.lane.buffer.count_below(plan.end)
    assert handled == expected
    assert all(partition.ledger.open_count == 0 for partition in partitions)


def test_a_full_batch_takes_those_that_have_waited_longest_and_leaves_the_rest() -> None:
    partitions = ready([Waits(4, 3, None, {}, set()), Waits(4, 2, None, {}, set())])
    choice = choose_batch(partitions, BatchPolicy(6, TIMEOUT), NOW)
    assert chosen(choice) == [[0, 1, 2, 3], [0, 1]]


def test_a_partition_that_may_hold_no_more_does_not_wait_for_more() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), 4)
    partition.on_fetched(records(0, 4))
    partition.lane.waiting_since = NOW
    assert chosen(choose_batch([partition], BatchPolicy(100, TIMEOUT), NOW)) == [[0, 1, 2, 3]]


def test_room_is_there_for_the_whole_of_a_plan_whatever_the_capacity() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(3, plan=PlannedBatches(0, 500)), 4)
    while partition.ledger.position < 500:
        assert partition.to_fetch >= min(2, 500 - partition.ledger.position)
        partition.on_fetched(records(partition.ledger.position, min(partition.to_fetch, 7)))
    assert not partition.may_grow
    part = next_part(partition, 2)
    assert part is not None
    assert part.is_fixed
    assert part.plan == PlannedBatches(3, 500)


def test_a_partition_that_holds_more_than_it_may_has_no_room() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), 8)
    partition.on_fetched(records(0, 8))
    partition.lane.on_unacked(partition.lane.take(8, 1000))
    partition.limit = FlowLimit.of(4)  # records turned out to be large
    assert partition.lane.is_idle
    assert partition.to_fetch == 0


def test_a_plan_further_on_survives_what_becomes_of_the_records_before_it() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0, plan=PlannedBatches(4, 8)), 64)
    partition.on_fetched(records(0, 12))
    for fate in ("failed", "suspected"):
        part = next_part(partition, 100)
        assert part is not None
        assert part.plan == PlannedBatches(0, 4)
        partition.propose(part.plan)
        (taken,) = partition.lane.take_batch(4)
        if fate == "failed":
            partition.lane.on_failed(taken[:1], "it failed", among=4)
        else:
            partition.lane.on_suspected(taken)
        partition.lane.on_returned(taken)
        # What a worker died in comes again as it was, too.
        assert partition.plan.planned == (
            PlannedBatches(4, 8) if fate == "failed" else PlannedBatches(0, 4, behind=((4, 8),))
        )
    partition.lane.on_settled(*partition.lane.take_batch(4))
    assert partition.plan.planned == PlannedBatches(4, 8)


def test_a_plan_ends_where_records_are_handed_out_one_by_one() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0, plan=PlannedBatches(0, 4)), 64)
    partition.on_fetched(records(0, 4))
    partition.lane.take(2, 1000)
    assert partition.checkpoint == Checkpoint(0)


def test_a_record_that_must_not_be_delivered_leaves_its_plan_without_a_future() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0, plan=PlannedBatches(0, 4)), 64)
    partition.on_fetched(records(0, 4))
    partition.refuse(records(2, 1)[0], "it is too large")
    part = next_part(partition, 100)
    assert part is not None
    assert (part.plan, part.is_fixed) == (PlannedBatches(0, 2), False)


def test_a_worker_that_died_after_its_batch_was_told_had_not_started_the_next() -> None:
    # Its slot still names the last batch: that word is written after the outcomes are sent.
    in_flight = InFlight()
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), 64)
    in_flight.add(partition.lane, records(0, 3), range(3))
    assert list(in_flight.settle_before(3))
    in_flight.add(partition.lane, records(3, 3), range(3, 6))
    assert not in_flight.take_started(0)
    assert [len(run.records) for run in in_flight.take_started(3)] == [3]


def test_what_waits_behind_a_batch_had_not_started_with_it() -> None:
    in_flight = InFlight()
    one, other = (of_records(PartitionKey("t", number), Checkpoint(0), 64) for number in range(2))
    in_flight.add(one.lane, records(0, 3), range(3))
    in_flight.add(other.lane, records(0, 2), range(3, 5))
    assert [run.lane for run in in_flight.take_started(1)] == [one.lane]
    assert [run.lane for run in in_flight.runs] == [other.lane]
    assert len(in_flight) == 2


def test_what_was_started_of_a_partition_is_one_span_whatever_the_attempts() -> None:
    in_flight = InFlight()
    one, other = (of_records(PartitionKey("t", number), Checkpoint(0), 64) for number in range(2))
    in_flight.add(one.lane, records(0, 3), range(6))
    in_flight.add(one.lane, records(3, 2), range(6))
    in_flight.add(other.lane, records(0, 1), range(6))
    started = in_flight.take_started(0)
    assert [(run.lane, [r.offset for r in run.records]) for run in started] == [
        (one.lane, [0, 1, 2, 3, 4]),
        (other.lane, [0]),
    ]
    assert not in_flight.runs


# ---- results

EVENTS = [SimpleNamespace(id=f"t/0/{offset}") for offset in range(4)]


def failures(result: object) -> list[int]:
    """Positions of the events that have failed."""
    return [position for position, outcome in enumerate(batch_outcomes(result, EVENTS)) if outcome.failure]


def response(position: int, status: int = 200, **headers: object) -> nuclio_sdk.Response:
    return nuclio_sdk.Response(headers=headers, status_code=status, event_id=EVENTS[position].id)


@pytest.mark.parametrize(
    "result", [None, "all well", (200, "fine"), nuclio_sdk.Response(status_code=404), {"a": 1}, 42, ()]
)
def test_what_is_no_list_speaks_for_all(result: object) -> None:
    assert batch_outcomes(result, EVENTS) == [RecordOutcome(None)] * 4


@pytest.mark.parametrize("result", [nuclio_sdk.Response(status_code=500), (503, "away")])
def test_a_status_of_500_or_above_fails_all(result: object) -> None:
    assert failures(result) == [0, 1, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([200, 404, 500, 599])), max_size=6))
def test_a_list_speaks_for_each_event_by_its_id(said: list[tuple[int, int]]) -> None:
    last = dict(said)
    expected = [position for position in range(4) if last.get(position, 500) >= 500]
    assert failures([response(position, status) for position, status in said]) == expected


def test_a_list_may_hold_what_belongs_to_no_event() -> None:
    stray = nuclio_sdk.Response(event_id="t/9/9")
    assert failures([response(0), stray, None, "text", response(3)]) == [1, 2]


def test_missing_responses_have_one_reason_so_that_they_are_one_failure() -> None:
    (failure,) = {outcome.failure for outcome in batch_outcomes([], EVENTS)}
    assert failure is not None
    assert "event_id" in failure


def test_a_response_may_ask_not_to_be_acked_for_its_event_or_for_all() -> None:
    no_ack = {"X-Nuclio-Stream-No-Ack": True}
    one = batch_outcomes([response(0), response(1, **no_ack), response(2), response(3)], EVENTS)
    assert [outcome.asks_no_ack for outcome in one] == [False, True, False, False]
    everyone = batch_outcomes(nuclio_sdk.Response(headers=no_ack), EVENTS)
    assert all(outcome.asks_no_ack for outcome in everyone)


def test_a_generator_is_run_once_for_all_its_events() -> None:
    ran = []

    def chunks() -> object:
        ran.append(1)
        yield "chunk"

    assert batch_outcomes(chunks(), EVENTS) == [RecordOutcome(None)] * 4
    assert ran == [1]


def test_a_generator_that_raises_is_no_outcome() -> None:
    def chunks() -> object:
        yield "chunk"
        raise HandlerReturnedError("it broke")

    assert failures(chunks()) == [0, 1, 2, 3]
