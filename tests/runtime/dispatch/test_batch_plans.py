"""Batches whose plan is refused for some of their partitions. Real workers, no broker."""

from pathlib import Path

from batch_bench import SEES, batch_bench, fresh
from worker_bench import until


async def test_a_partition_whose_plan_is_refused_leaves_its_batch_and_is_planned_again_later(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, SEES, size=8, timeout_seconds=0.05) as b:
        gone, kept = b.assign(*fresh(2))
        b.source.refused = {0}
        b.feed(4, gone, kept)
        await b.settled(4, kept)
        b.feed(4, kept)
        await b.settled(8, kept)
        assert {number for batch in b.seen for number, _, _ in batch} == {1}
        b.source.refused = set()
        await b.settled(4, gone)
    assert b.times == dict.fromkeys([(0, n) for n in range(4)] + [(1, n) for n in range(8)], 1)


async def test_a_batch_whose_plan_is_refused_as_a_whole_is_tried_again(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=8, timeout_seconds=0.05) as b:
        one, other = b.assign(*fresh(2))
        b.source.refused = {0, 1}
        b.feed(4, one, other)
        await until(lambda: len(b.source.commits) > 3)
        assert b.seen == []
        b.source.refused = set()
        await b.settled(4, one, other)
