"""The Spark session of a planned batch: in the plan, and ended before the batch comes again."""

from dataclasses import dataclass, field
from pathlib import Path

from batch_bench import Commits
from worker_bench import bench, records, until

from headrace.runtime.commitment import Commitment, Plan
from headrace.runtime.delivery_policy import BatchPolicy, DeliveryPolicy
from headrace.runtime.partition import AssignedPartition

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
        b.dispatcher.source = source
        partition = AssignedPartition("t", 0, Commitment(0, plan=Plan(0, 3, "old")), 256)
        b.dispatcher.assign([partition])
        b.feed(partition, records(0, 7))
        await b.settled(partition, 7)
        assert sessions.asked == [("old", False), ("old", False)]
        assert b.lines() == ["[0, 1, 2]", "[3, 4, 5, 6]"]
        plans = [commit[0].plan for commit in source.commits]
        assert plans == [Plan(0, 3, "new"), Plan(3, 7, "new")]


async def test_a_plan_without_a_session_asks_nobody(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path)
    async with bench(tmp_path, WRITES, policy=POLICY, end_session=sessions.end) as b:
        partition = AssignedPartition("t", 0, Commitment(0, plan=Plan(0, 3)), 256)
        b.dispatcher.assign([partition])
        b.feed(partition, records(0, 3))
        await until(lambda: b.lines() == ["[0, 1, 2]"])
        assert sessions.asked == []
