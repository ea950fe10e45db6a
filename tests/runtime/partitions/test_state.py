"""The states of a lane: it goes the ways of the table and no other, and the page shows that table."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from root import ROOT

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import of_records
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.state import TRANSITIONS, PartitionState

STATES = st.sampled_from(PartitionState)
PAGE = ROOT / "docs/design/delivery.md"


def new_lane() -> PartitionLane:
    return of_records(PartitionKey("t", 0), Checkpoint(0), capacity=1).lane


@given(STATES, STATES, st.text())
def test_a_lane_becomes_what_the_table_has_and_nothing_else(
    now: PartitionState, to: PartitionState, why: str
) -> None:
    lane = new_lane()
    lane.state = now
    if to is now or to in TRANSITIONS[now]:
        lane.become(to, why)
        assert (lane.state, lane.why_stuck) == (to, why)
    else:
        with pytest.raises(AssertionError, match=now.name):
            lane.become(to, why)
        assert (lane.state, lane.why_stuck) == (now, "")


@given(st.lists(STATES))
def test_what_is_refused_on_the_way_changes_nothing(ways: list[PartitionState]) -> None:
    lane = new_lane()
    been = [lane.state]
    for to in ways:
        try:
            lane.become(to)
        except AssertionError:
            assert lane.state is been[-1]
        else:
            been.append(to)
    steps = {(now, to) for now, to in pairwise(been) if now is not to}
    assert steps <= {(now, to) for now, others in TRANSITIONS.items() for to in others}


def test_every_state_is_in_the_table_and_may_be_revoked_for_good() -> None:
    assert [*TRANSITIONS] == [*PartitionState]
    assert TRANSITIONS[PartitionState.REVOKED] == {}
    assert [now for now, others in TRANSITIONS.items() if PartitionState.REVOKED not in others] == [
        PartitionState.REVOKED
    ]


def test_the_page_has_the_table_row_by_row() -> None:
    (table,) = re.findall(r"^\| from \| to \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    shown = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in table.splitlines()]
    assert shown == [
        (now.value, to.value, why) for now, others in TRANSITIONS.items() for to, why in others.items()
    ]
