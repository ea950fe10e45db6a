"""The word in which a worker says which record it is in, where one follows another."""

from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.progress_slot import Progress, ProgressSlot


class _EndedError(Exception):
    """In the place of a process's end."""


def _end() -> NoReturn:
    raise _EndedError


@pytest.fixture
def lease() -> Lease:
    return Lease.create(1)


@pytest.fixture
def slot(lease: Lease) -> Iterator[ProgressSlot]:
    slot = ProgressSlot(-1, lease, _end)
    yield slot
    slot.close()


@pytest.mark.parametrize("enter", [ProgressSlot.enter, ProgressSlot.enter_run])
def test_nothing_starts_once_the_lease_is_over_and_what_was_before_is_done(
    enter: Callable[[ProgressSlot, int], object], lease: Lease, slot: ProgressSlot
) -> None:
    enter(slot, 3)
    assert slot.read()[:2] == (3, True)
    lease.end_at(0)
    with pytest.raises(_EndedError):
        enter(slot, 4)
    assert slot.read()[:2] == (4, False), "record 3 must not be blamed for that"


def test_after_a_suspend_of_the_machine_no_run_starts(lease: Lease, slot: ProgressSlot) -> None:
    """The clock that each record asks stands still meanwhile, the one of leases doesn't."""
    lease.end_at(0)
    lease.words[0] = 2**63
    slot.enter(3)
    with pytest.raises(_EndedError):
        slot.enter_run(4)
    assert slot.read() == Progress(4, is_running=False, since_ns=slot.read().since_ns)
