"""Records that went well and have failed after all, among others of their key or partition. Real workers."""

import asyncio
import textwrap
from pathlib import Path

import pytest
from ack_bench import CUMULATIVE, ENABLE, ONLY
from failure_bench import policy
from produce_bench import Cluster, producing
from worker_bench import Bench, Record, bench, records, until

from headrace.runtime.partitions.key import PartitionKey, PartitionLog
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import stuck_at

OLD, NEW = PartitionLog("old"), PartitionLog("new")

# The one with value "bad" fails in its handler, all others produce a message at their first attempt.
ONE_FAILS = """
    def handler(context, event):
        write(f"{event.offset} {event.attempt}")
        if event.body == b"bad":
            raise ValueError("bad")
        if event.attempt == 1:
            context.produce("out", str(event.offset))
"""


def of_one_key(*values: str) -> list[Record]:
    return [Record(offset, value.encode(), key=b"k") for offset, value in enumerate(values)]


def lane_of(partition: AssignedPartition) -> PartitionLane:
    (lane,) = partition.lane.parts
    return lane


async def stands(b: Bench, cluster: Cluster, partition: AssignedPartition, state: PartitionState) -> None:
    """Records 0 to 2 have gone well, their messages are on their way, and 3 has failed."""
    b.feed(partition, of_one_key("", "", "", "bad"))
    await until(lambda: len(cluster.sent) == 3 and lane_of(partition).state is state)


@pytest.mark.parametrize(
    ("order", "then"),
    [((2, 1, 0), "halt"), ((0, 1, 2), "halt"), ((1, 2, 0), "deadLetter"), ((2, 0, 1), "skip")],
)
async def test_all_refused_records_of_a_key_come_again_though_a_later_one_stands(
    tmp_path: Path, order: tuple[int, ...], then: str
) -> None:
    by_key = policy(then, attempts=2, ordering="key")  # type: ignore[arg-type]
    async with producing(tmp_path, ONE_FAILS, by_key) as (b, cluster):
        (p,) = b.assign(("t", 0))
        if then == "deadLetter":
            cluster.gate.clear()
        if then == "skip":
            cluster.is_away = True  # its attempts aren't safe: it waits
        states = {
            "halt": PartitionState.HALTED,
            "deadLetter": PartitionState.BACKOFF,
            "skip": PartitionState.BACKOFF,
        }
        await stands(b, cluster, p, states[then])
        for offset in order:
            cluster.confirm(str(offset).encode(), failure="too large")
        cluster.gate.set()
        cluster.is_away = False
        await until(lambda: {"0 2", "1 2", "2 2"} <= set(b.lines()))
        again = [line for line in b.lines() if line in {"0 2", "1 2", "2 2"}]
        assert again == ["0 2", "1 2", "2 2"]
        if then == "halt":
            await until(lambda: lane_of(p).state is PartitionState.HALTED)
            assert p.checkpoint.offset == 3
        else:
            await b.settled(p, 4)
            assert p.checkpoint.offset == 4


async def test_what_is_skipped_by_hand_is_the_record_that_was_named(tmp_path: Path) -> None:
    """One before it comes back while its dead letter can't be written."""
    by_key = policy("deadLetter", attempts=1, ordering="key")
    async with producing(tmp_path, ONE_FAILS, by_key) as (b, cluster):
        cluster.refusal = ConnectionError("away")
        (p,) = b.assign(("t", 0))
        await stands(b, cluster, p, PartitionState.WRITING_DEAD_LETTER)
        await until(lambda: lane_of(p).why_stuck)
        cluster.gate.clear()
        asked = len(cluster.dead_letters)
        await until(lambda: len(cluster.dead_letters) > asked)  # the next try is under way
        cluster.confirm(b"1", failure="too large")
        assert stuck_at(p) == 3
        assert b.dispatcher.act("skip", p) == "t/0: offset 3 is skipped"
        assert not p.ledger.is_open(3)
        assert p.ledger.is_open(1)
        cluster.refusal = None
        cluster.gate.set()
        await until(lambda: any(record.offset == 1 for record, _, _ in cluster.dead_letters))
        cluster.confirm()
        await b.settled(p, 4)


async def test_a_refused_record_is_not_delivered_beyond_its_attempts(tmp_path: Path) -> None:
    by_key = policy("deadLetter", attempts=1, ordering="key")
    async with producing(tmp_path, ONE_FAILS, by_key) as (b, cluster):
        cluster.gate.clear()
        (p,) = b.assign(("t", 0))
        await stands(b, cluster, p, PartitionState.WRITING_DEAD_LETTER)
        cluster.confirm(b"1", failure="too large")
        cluster.confirm()
        cluster.gate.set()
        await b.settled(p, 4)
        assert [record.offset for record, _, _ in cluster.dead_letters] == [3, 1]
        assert [line for line in b.lines() if line.startswith("1 ")] == ["1 1"]


ACKS_AND_STAYS = """
    async def handler(context, event):
        write(f"{event.offset} {event.attempt}")
        context.produce("out", str(event.offset))
        await context.platform.explicit_ack(event)
        while event.attempt == 1 and not exists("go"):
            await asyncio.sleep(0.005)
"""


async def test_an_acked_record_whose_message_is_refused_comes_again_once_its_handler_has_returned(
    tmp_path: Path,
) -> None:
    async with producing(tmp_path, ACKS_AND_STAYS, ENABLE) as (b, cluster):
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))

        def is_acked() -> bool:
            b.dispatcher.sync_progress()
            return p.ledger.is_settled(0)

        # The message leaves before the ack.
        await until(lambda: cluster.sent and is_acked())
        cluster.confirm(failure="too large")
        assert p.ledger.is_open(0)
        (b.folder / "go").touch()
        await until(lambda: b.lines() == ["0 1", "0 2"] and cluster.sent)
        cluster.confirm()
        await until(lambda: p.checkpoint.offset == 1)


async def test_a_refusal_is_no_older_than_the_ack_of_the_same_delivery(tmp_path: Path) -> None:
    """The broker may answer before the handler acks: the ack is of a delivery that has failed."""
    handler = """
        async def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            context.produce("out", str(event.offset))
            while not exists("go"):
                await asyncio.sleep(0.005)
            await context.platform.explicit_ack(event)
    """
    async with producing(tmp_path, handler, ENABLE) as (b, cluster):
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(lambda: cluster.sent)
        cluster.confirm(failure="too large")
        (b.folder / "go").touch()
        await until(lambda: b.lines() == ["0 1", "0 2"])
        assert p.checkpoint.offset == 0
        await until(lambda: cluster.sent)
        cluster.confirm()
        await until(lambda: p.checkpoint.offset == 1)


@pytest.mark.parametrize("ordering", ["partition", "key"])
async def test_a_message_refused_after_its_partition_has_left_is_covered_by_no_commit(
    tmp_path: Path, ordering: str
) -> None:
    """The last commit may wait for one that is under way."""
    async with producing(tmp_path, ONE_FAILS, policy(ordering=ordering)) as (b, cluster):
        (p,) = b.assign(("t", 0))
        b.feed(p, of_one_key("", ""))
        await until(lambda: len(cluster.sent) == 2 and not p.lane.out_count)
        await b.dispatcher.revoke([p], 0)
        cluster.confirm(b"0", failure="too large")
        cluster.confirm()
        assert p.checkpoint.offset == 0
        assert p.checkpoint.acked == ((1, 2),)


@pytest.mark.parametrize("ordering", ["partition", "key"])
async def test_a_message_refused_while_its_partition_leaves_is_for_the_next_owner(
    tmp_path: Path, ordering: str
) -> None:
    async with producing(tmp_path, ONE_FAILS, policy(ordering=ordering)) as (b, cluster):
        (p,) = b.assign(("t", 0))
        b.feed(p, of_one_key("", ""))
        await until(lambda: len(cluster.sent) == 2 and not p.lane.out_count)
        asyncio.get_running_loop().call_soon(cluster.confirm, b"0")
        asyncio.get_running_loop().call_later(0, lambda: cluster.confirm(b"1", failure="too large"))
        await b.dispatcher.revoke([p], 10)
        assert p.checkpoint.offset == 1
        assert p.checkpoint.attempts == ((1, 2, 1),)
        assert all(lane.is_idle for lane in p.lane.parts)


async def test_a_cumulative_ack_leaves_what_was_nacked_below_it_to_its_policy(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            if event.offset == 1 and event.attempt == 1:
                await context.platform.explicit_nack(event, "later")
            if event.offset == 3 or event.attempt == 2:
                await context.platform.explicit_ack(event)
    """
    async with producing(tmp_path, handler, CUMULATIVE) as (b, _):
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 4))
        await until(lambda: "1 2" in b.lines())
        await b.settled(p, 4)
        assert b.lines() == ["0 1", "1 1", "2 1", "3 1", "1 2"]


@pytest.mark.parametrize(
    ("log", "is_kept"), [(OLD, True), (OLD.cut(9), True), (OLD.cut(5), False), (NEW, False)]
)
async def test_what_is_unwritten_of_a_partition_is_so_in_no_other_log(
    tmp_path: Path, log: PartitionLog, is_kept: bool
) -> None:
    async with bench(tmp_path, "def handler(context, event):\n    pass", policy=ONLY) as b:
        partitions = [of_records(PartitionKey("t", 0), Checkpoint(0), 256) for _ in range(2)]
        for partition, its in zip(partitions, (OLD, log), strict=True):
            partition.log = its
        before, after = partitions
        b.dispatcher.begin([before])
        before.pending.reject(5)
        await b.dispatcher.revoke([before], 0)
        b.dispatcher.begin([after])
        assert (5 in after.pending.rejected) is is_kept


async def test_an_ack_of_a_delivery_that_has_failed_counts_no_more_when_its_partition_is_back(
    tmp_path: Path,
) -> None:
    """Its message is refused after the partition has left, and the same replica gets that again."""
    handler = """
        async def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            if event.offset == 0:
                context.produce("out", str(event.offset))
            if exists("late"):
                await context.platform.explicit_ack(nuclio.QualifiedOffset("t", 0, 0))
    """
    async with producing(tmp_path, "import nuclio\n" + textwrap.dedent(handler), ONLY) as (b, cluster):
        (p,) = b.assign(("t", 0))
        b.dispatcher.on_assigned([p.key])
        b.feed(p, records(0, 1))
        await until(lambda: cluster.sent and not p.lane.in_flight_count)
        await b.dispatcher.revoke([p], 0)
        b.dispatcher.on_revoked([p.key])
        cluster.confirm(failure="too large")
        (b.folder / "late").touch()
        other, again = b.assign(("t", 1), ("t", 0))
        b.feed(other, records(7, 1))
        await until(lambda: "7 1" in b.lines() and not other.lane.in_flight_count)
        b.dispatcher.sync_progress()
        assert not again.ledger.is_settled(0)
        b.feed(again, records(0, 1))
        await until(lambda: b.lines()[-1] == "0 1" and not again.lane.in_flight_count)
        assert again.checkpoint.offset == 0
        cluster.confirm()
        assert again.checkpoint.offset == 1
