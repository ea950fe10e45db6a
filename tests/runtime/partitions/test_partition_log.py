"""Which log an offset is of: told by an id, and by the cuts that were seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.partitions.key import PartitionLog

offsets = st.integers(0, 9)


@given(st.lists(offsets, max_size=4), st.data())
def test_a_record_is_there_as_long_as_no_cut_since_was_at_it_or_below(
    cuts: list[int], data: st.DataObject
) -> None:
    logs = [PartitionLog("a")]
    for cut in cuts:
        logs.append(logs[-1].cut(cut))
    seen, offset = data.draw(st.integers(0, len(cuts))), data.draw(offsets)
    assert logs[-1].has(logs[seen].stamp, offset) == all(offset < cut for cut in cuts[seen:])


def test_a_log_of_another_id_has_none_of_its_records() -> None:
    log = PartitionLog("a", (5,))
    assert not log.has(PartitionLog("b").stamp, 0)
    assert not log.renamed("b").has(log.stamp, 0)
    assert log.renamed("b") == PartitionLog("b")


def test_a_source_that_says_its_id_late_or_not_every_time_has_the_same_log() -> None:
    log = PartitionLog().cut(5)
    assert log.renamed("a") == PartitionLog("a", (5,)) == log.renamed("a").renamed("")
    assert log.renamed("a").has(log.stamp, 7)
    assert not log.renamed("a").has(PartitionLog().stamp, 7)


@pytest.mark.parametrize("stamp", ["", "a", "a:", "a:1", "a:-1", "a:x", "a:" + "9" * 5000, "a:\u0661"])
def test_a_stamp_of_a_process_that_saw_more_or_of_nobody_is_judged_by_its_id(stamp: str) -> None:
    assert PartitionLog("a").has(stamp, 3)


def test_a_colon_in_an_id_is_of_the_id() -> None:
    assert not PartitionLog("a:b").has("a:0", 3)
    assert PartitionLog("a:b").has("a:b:0", 3)
