"""Places for records that run at once: which run, since when, and never more than there are places."""

from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.progress_slot import CallSlots, ProgressSlot, RunningCall


@given(st.integers(1, 6), st.lists(st.integers(0, 9), max_size=60))
def test_what_was_entered_and_not_left_runs(places: int, moves: list[int]) -> None:
    """Each number is a record: entered if it isn't in and there is place, left if it is."""
    slots = CallSlots(memoryview(bytearray(16 * places)).cast("Q"))
    running: dict[int, int] = {}
    for now, seq in enumerate(moves, start=1):
        if seq in running:
            slots.leave(seq)
            del running[seq]
        elif slots.has_place:
            slots.enter(seq, now)
            running[seq] = now
        assert slots.has_place == (len(running) < places)
        assert slots.read() == sorted(RunningCall(seq, since) for seq, since in running.items())


def test_what_waits_for_its_turn_has_a_place_and_does_not_run() -> None:
    slots = CallSlots(memoryview(bytearray(32)).cast("Q"))
    slots.enter(3, 10)
    slots.enter(4, 11)
    slots.wait(3)
    assert not slots.has_place
    assert slots.read() == [RunningCall(4, 11)]
    slots.begin(3, 12)
    assert slots.read() == [RunningCall(3, 12), RunningCall(4, 11)]
    slots.wait(4)
    slots.leave(4)
    slots.enter(5, 13)
    assert slots.read() == [RunningCall(3, 12), RunningCall(5, 13)]


def test_both_ends_see_the_same_places_and_the_word_beside_them_stays() -> None:
    ours = ProgressSlot.create(Lease.create(1), places=2)
    theirs = ProgressSlot(ours.fd, Lease.create(1))
    theirs.enter_beside(0)
    theirs.enter_beside(7)
    assert [call.seq for call in ours.calls.read()] == [0, 7]
    assert not ours.read().is_running
    theirs.calls.leave(0)
    theirs.calls.leave(0)
    theirs.acks.add(1, 5)
    assert [call.seq for call in ours.calls.read()] == [7]
    ours.close()


def test_once_the_lease_is_over_nothing_is_entered() -> None:
    lease = Lease.create(1)
    ends: list[bool] = []

    def die() -> None:
        ends.append(True)
        raise SystemExit

    slot = ProgressSlot.create(lease, places=1)
    theirs = ProgressSlot(slot.fd, lease, die)  # type: ignore[arg-type]
    lease.end_at(0)
    with pytest.raises(SystemExit):
        theirs.enter_beside(3)
    assert ends == [True]
    assert slot.calls.read() == []
    slot.close()


class _EndedError(Exception):
    """In the place of a process's end."""


def test_what_runs_when_the_lease_ends_is_not_to_blame_for_that() -> None:
    def end() -> NoReturn:
        raise _EndedError

    lease = Lease.create(1)
    ours = ProgressSlot.create(lease, places=4)
    theirs = ProgressSlot(ours.fd, lease, end)
    theirs.enter_beside(3)
    theirs.enter_beside(5)
    assert [call.seq for call in ours.calls.read()] == [3, 5]
    lease.end_at(0)
    with pytest.raises(_EndedError):
        theirs.enter_beside(6)
    assert not ours.calls.read()
    theirs.fd = -1  # it is the other one's
    theirs.close()
    ours.close()
