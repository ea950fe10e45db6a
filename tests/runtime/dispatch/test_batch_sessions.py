"""The Spark session of a planned batch: in the plan, and ended before the batch comes again."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from batch_bench import Commits
from worker_bench import bench, records, until

from headrace.runtime.config.delivery_policy import BatchPolicy, DeliveryPolicy
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.partition import of_records

WRITES = """
    def handler(context, events):
        write([event.offset for event in events])
"""
POLICY = DeliveryPolicy(batch=BatchPolicy(4, 0.05))


@dataclass
class Sessions:
    """What a dispatcher was asked to end; the first time in vain."""

    folder: Path
    asked: list[tuple[str, bool]] = field(default_factory=list)

    async def end(self, session: str) -> bool:
        self.asked.append((session, (self.folder / "log").exists()))
        return len(self.asked) > 1


async def test_the_session_of_a_dead_owner_is_ended_before_its_batch_comes_again(tmp_path: Path) -> None:
    sessions, source = Sessions(tmp_path), Commits()
    source.may_answer.set()
    async with bench(tmp_path, WRITES, policy=POLICY, spark_session_id="new", end_session=sessions.end) as b:
        b.dispatcher.connect(source)
        partition = of_records(PartitionKey("t", 0), Checkpoint(0, plan=PlannedBatches(0, 3, "old")), 256)
        b.dispatcher.begin([partition])
        b.feed(partition, records(0, 7))
        await b.settled(partition, 7)
        assert sessions.asked == [("old", False), ("old", False)]
        assert b.lines() == ["[0, 1, 2]", "[3, 4, 5, 6]"]
        plans = [commit[0].plan for commit in source.commits]
        assert plans == [PlannedBatches(0, 3, "new"), PlannedBatches(3, 7, "new")]


async def test_the_session_of_a_dead_owner_does_not_run_on_while_other_batches_come_first(
    tmp_path: Path,
) -> None:
    sessions, source = Sessions(tmp_path), Commits()
    source.may_answer.set()
    handler = WRITES + '        wait_for("go")\n'
    async with bench(tmp_path, handler, policy=POLICY, spark_session_id="new", end_session=sessions.end) as b:
        b.dispatcher.connect(source)
        first = of_records(PartitionKey("t", 0), Checkpoint(0), 256)
        planned = of_records(PartitionKey("t", 1), Checkpoint(0, plan=PlannedBatches(0, 3, "old")), 256)
        b.dispatcher.begin([first, planned])
        b.feed(first, records(0, 4))
        await until(lambda: b.lines() == ["[0, 1, 2, 3]"])
        assert sessions.asked == [("old", False)]
        b.feed(planned, records(0, 3))
        (tmp_path / "go").touch()
        await b.settled(planned, 3)
        assert sessions.asked == [("old", False), ("old", True)]


async def test_a_session_of_its_own_is_not_ended_when_a_partition_comes_back(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path)
    async with bench(tmp_path, WRITES, policy=POLICY, spark_session_id="own", end_session=sessions.end) as b:
        b.dispatcher.begin(
            [of_records(PartitionKey("t", 0), Checkpoint(0, plan=PlannedBatches(0, 3, "own")), 256)]
        )
        await asyncio.sleep(0)
        assert sessions.asked == []


async def test_a_plan_without_a_session_asks_nobody(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path)
    async with bench(tmp_path, WRITES, policy=POLICY, end_session=sessions.end) as b:
        partition = of_records(PartitionKey("t", 0), Checkpoint(0, plan=PlannedBatches(0, 3)), 256)
        b.dispatcher.begin([partition])
        b.feed(partition, records(0, 3))
        await until(lambda: b.lines() == ["[0, 1, 2]"])
        assert sessions.asked == []


def test_a_plan_that_never_began_names_no_session_of_a_worker_that_lives_on() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0, plan=PlannedBatches(0, 3, "old")), 256)
    partition.on_fetched(records(0, 3))
    partition.propose(PlannedBatches(0, 3))
    assert partition.checkpoint.plan == PlannedBatches(0, 3, "old")
    partition.plan.name_session(partition.lane.buffer.next_offset, "ours")
    partition.revoke()
    assert partition.checkpoint.plan == PlannedBatches(0, 3)


def test_a_plan_that_began_names_its_session_until_it_is_over() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), 256)
    partition.on_fetched(records(0, 3))
    partition.propose(PlannedBatches(0, 3))
    partition.plan.name_session(partition.lane.buffer.next_offset, "ours")
    partition.lane.take_batch(3)
    partition.revoke()
    assert partition.checkpoint.plan == PlannedBatches(0, 3, "ours")
