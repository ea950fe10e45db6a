"""A partition whose records may overtake each other: what waits, what may go, what a commit says."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_bench import Record

from headrace.runtime.partitions.flow_control import most_out_of_order
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.keyed import KeyedLanes, KeyedOrdering, KeyLane
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText
from headrace.runtime.partitions.partition import AssignedPartition, of_keys
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import is_stuck, stuck_at
from headrace.runtime.wire.undecoded import UndecodableRecord

KEY = PartitionKey("t", 0)


def partition(ordering: KeyedOrdering = "key", start: Checkpoint | None = None) -> AssignedPartition:
    return of_keys(KEY, start or Checkpoint(0), 10_000, ordering)


def fetch(p: AssignedPartition, *keys: str | None, first: int = 0) -> None:
    p.on_fetched(
        [Record(first + i, b"", None if key is None else key.encode()) for i, key in enumerate(keys)]
    )


def take(p: AssignedPartition, limit: int = 100) -> KeyLane | None:
    """What a worker would be given; None where nothing may go."""
    if not p.lane.is_deliverable:
        return None
    lane = p.lane.next_part()
    assert isinstance(lane, KeyLane)
    lane.given = lane.take(limit, 1 << 20)  # type: ignore[attr-defined]
    return lane


def offsets(lane: KeyLane | None) -> list[int]:
    return [] if lane is None else [record.offset for record in lane.given]  # type: ignore[attr-defined]


def offer(lane: KeyLane) -> None:
    """As a dispatcher does when something of it has come back, or ended."""
    if lane.is_deliverable:
        lane.ready()


def test_records_of_one_key_go_together_and_those_of_others_beside_them() -> None:
    p = partition()
    fetch(p, "a", "b", "a", None, None, "b")
    lanes = [take(p) for _ in range(4)]
    assert [offsets(lane) for lane in lanes] == [[0, 2], [1, 5], [3], [4]]
    assert take(p) is None
    assert p.lane.out_count == 6


def test_a_key_waits_for_what_is_in_flight_of_it() -> None:
    p = partition()
    fetch(p, "a", "b")
    a = take(p)
    fetch(p, "a", "c", first=2)
    assert [offsets(take(p)), offsets(take(p))] == [[1], [3]]
    assert a is not None
    assert take(p) is None
    a.on_settled(a.given)  # type: ignore[attr-defined]
    offer(a)
    assert offsets(take(p)) == [2]


def test_without_order_each_goes_by_itself() -> None:
    p = partition("none")
    fetch(p, "a", "a", "a")
    assert [offsets(take(p)) for _ in range(4)] == [[0], [1], [2], []]


def test_what_fails_holds_up_its_key_alone_and_comes_again_at_its_next_attempt() -> None:
    p = partition()
    fetch(p, "a", "b", "a")
    a = take(p)
    assert a is not None
    a.on_failed(a.given[:1], "no", 1)  # type: ignore[attr-defined]
    a.on_returned(a.given)  # type: ignore[attr-defined]
    offer(a)
    assert offsets(take(p)) == [1]
    assert take(p) is None
    assert a.attempt(a.buffer.head) == 2  # type: ignore[arg-type]


def test_of_several_keys_that_stand_the_first_that_stood_is_the_one_to_move() -> None:
    p = partition()
    fetch(p, "a", "b", "c")
    a, b, c = (lane for _ in range(3) if (lane := take(p)) is not None)
    for lane in (b, c, a):
        lane.on_failed(lane.given, "no", 1)  # type: ignore[attr-defined]
        lane.on_returned(lane.given)  # type: ignore[attr-defined]
        lane.become(PartitionState.HALTED, ": no")
    for lane in (b, c, a):
        assert stuck_at(p) == lane.next_offset
        lane.become(PartitionState.ACTIVE)
    assert not is_stuck(p)


def test_a_key_that_has_nothing_left_takes_no_memory() -> None:
    p = partition()
    for at in range(1_000):
        fetch(p, f"key {at}", first=at)
        lane = take(p)
        assert lane is not None
        lane.on_settled(lane.given)  # type: ignore[attr-defined]
    assert isinstance(p.lane, KeyedLanes)
    assert not p.lane.lanes_by_key
    assert not p.lane.is_deliverable
    assert not p.lane._queue
    assert p.lane.is_idle
    assert p.ledger.committable == 1_000


def test_records_that_were_acked_under_the_last_owner_are_not_here() -> None:
    p = partition(start=Checkpoint(0, acked=((1, 3),)))
    fetch(p, "a", "b", "c", "d")
    assert [offsets(take(p)) for _ in range(3)] == [[0], [3], []]


def test_one_whose_key_cannot_be_read_is_no_ones_successor() -> None:
    p = partition()
    p.on_fetched([Record(0, b"", b"a"), UndecodableRecord(1, ValueError("no"))])
    assert [offsets(take(p)) for _ in range(2)] == [[0], [1]]


@pytest.mark.parametrize("max_text_chars", [4096, 512, 150])
def test_no_more_overtake_a_record_than_a_commit_can_tell(max_text_chars: int) -> None:
    """And what holds up the commit goes, whatever else may not."""
    p = partition("none")
    p.limit = replace(p.limit, out_of_order=most_out_of_order(max_text_chars))
    p.on_fetched([Record(offset) for offset in range(3_000)])
    first, *held = [take(p) for _ in range(3)]
    assert first is not None
    while (lane := take(p)) is not None:
        if offsets(lane)[0] % 2:
            lane.on_settled(lane.given)  # type: ignore[attr-defined]
        else:
            held.append(lane)
    assert p.lane.out_count + p.ledger.settled_span_count == most_out_of_order(max_text_chars)
    text = CheckpointText(1, p.checkpoint).encode(max_text_chars)
    assert text.is_whole
    first.on_returned(first.given)  # type: ignore[attr-defined]
    offer(first)
    assert offsets(take(p)) == [0]
    assert take(p) is None


def test_nothing_goes_once_the_partition_leaves() -> None:
    p = partition()
    fetch(p, "a", "b")
    a = take(p)
    assert a is not None
    p.revoke()
    assert {part.state for part in p.lane.parts} == {PartitionState.REVOKED}, "whoever holds one up sees it"
    assert take(p) is None
    a.on_returned(a.given)  # type: ignore[attr-defined]
    offer(a)
    assert take(p) is None
    assert p.unsettled == 0
    assert p.checkpoint.offset == 0


ACTS: dict[str, Callable[[KeyLane], None]] = {
    "settled": lambda lane: lane.on_settled(lane.given),  # type: ignore[attr-defined]
    "returned": lambda lane: lane.on_returned(lane.given),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("ordering", ["key", "none"])
@settings(max_examples=examples(60))
@given(seed=st.integers(0, 1 << 30), keys=st.integers(1, 12), limit=st.integers(1, 5))
def test_each_key_is_in_order_and_never_beside_itself_and_all_ends(
    ordering: KeyedOrdering, seed: int, keys: int, limit: int
) -> None:
    rng, p = random.Random(seed), partition(ordering)
    done: dict[bytes, list[int]] = {}
    out: list[KeyLane] = []
    count = fetched = 60
    fetched = 0
    while p.ledger.committable < count:
        fresh = rng.randint(0, min(7, count - fetched))
        if fresh:
            p.on_fetched([Record(fetched + i, b"", b"%d" % rng.randrange(keys)) for i in range(fresh)])
            fetched += fresh
        if (lane := take(p, limit)) is not None:
            out.append(lane)
        if out and rng.random() < 0.6:
            lane = out.pop(rng.randrange(len(out)))
            given = lane.given  # type: ignore[attr-defined]
            if rng.random() < 0.7:
                for record in given:
                    done.setdefault(record.key, []).append(record.offset)
                ACTS["settled"](lane)
            else:
                ACTS["returned"](lane)
            offer(lane)
        in_flight = [record.key for lane in out for record in lane.given[:1]]  # type: ignore[attr-defined]
        assert ordering == "none" or len(set(in_flight)) == len(in_flight)
    if ordering == "key":
        assert all(ended == sorted(ended) for ended in done.values())
    assert sorted(offset for ended in done.values() for offset in ended) == list(range(count))
    assert p.lane.is_idle
