"""What an ack frees, whatever becomes of its handler, and what people are told where none comes."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from ack_bench import (
    CUMULATIVE,
    ENABLE,
    OBEYS,
    ONLY,
    WRITES,
    ack,
    handled,
)
from worker_bench import Bench, bench, records, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.monitor import DispatchMonitor
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import of_records
from headrace.runtime.partitions.state import PartitionState


async def test_one_ack_frees_exactly_its_own_record_in_any_order(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        p, other = b.assign(("t", 0), ("t", 1))
        b.feed(p, records(0, 12))
        b.feed(other, records(0, 12))
        await handled(b, 24)
        is_open = set(range(12))
        for offset in (10, 3, 0, 3, 7, 11, 1, 10, 5, 9, 2, 8, 6, 4):
            assert await ack(b, offset) == ["True"]
            is_open.discard(offset)
            assert {o for o in range(12) if p.ledger.is_open(o)} == p.awaiting_ack == is_open
            assert p.ledger.committable == min(is_open, default=12)
        assert other.checkpoint == Checkpoint(0)
        assert len(b.lines()) == 24


async def test_an_ack_through_frees_all_up_to_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 12))
        await handled(b, 12)
        await ack(b, 10)
        assert p.checkpoint == Checkpoint(0, acked=((10, 11),))
        await ack(b, 8, verb="explicit_ack_through")
        assert p.checkpoint == Checkpoint(9, acked=((10, 11),))
        assert p.awaiting_ack == {9, 11}


async def test_with_cumulative_each_ack_frees_all_up_to_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=CUMULATIVE) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 12))
        await handled(b, 12)
        await ack(b, 10)
        assert p.checkpoint == Checkpoint(11)
        await ack(b, 5)
        assert p.checkpoint == Checkpoint(11)


@pytest.mark.parametrize(
    ("policy", "fails"),
    [
        (ENABLE, "raise ValueError"),
        (ENABLE, "os.kill(os.getpid(), 9)"),
        (ONLY, "return (500, '')"),
        (ONLY, "os._exit(1)"),
    ],
    ids=["raises", "killed", "status 500", "exits"],
)
async def test_an_ack_counts_whatever_becomes_of_its_handler(
    tmp_path: Path, policy: DeliveryPolicy, fails: str
) -> None:
    handler = f"""
        import nuclio
        async def handler(context, event):
            write(event.offset)
            await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))
            if event.offset == 5:
                {fails}
    """
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await b.settled(p, 10)
        assert b.lines() == [str(offset) for offset in range(10)]
        assert p.lane.state is PartitionState.ACTIVE
        assert not p.failed


async def test_an_ack_of_the_record_that_halts_a_partition_lets_it_go_on(tmp_path: Path) -> None:
    handler = """
async def handler(context, event):
    write(event.offset)
    assert event.offset != 5
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=ENABLE) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert await ack(b, 5) == ["True"]
        await b.settled(p, 10)
        assert b.lines() == [str(offset) for offset in (*range(6), 5, 5, *range(6, 10))]


async def test_an_ack_of_another_record_does_not_move_a_record_that_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = replace(ONLY, fetch_max_bytes=8)
    async with bench(tmp_path, WRITES, static=True, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        batch = records(0, 4)
        batch[2].value = b"too large to be delivered"
        b.feed(p, batch)
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert await ack(b, 0, 1) == ["True"] * 2
        assert p.lane.state is PartitionState.HALTED
        assert caplog.text.count("is halted at offset 2") == 1
        assert await ack(b, 2) == ["True"]
        await handled(b, 3)
        assert b.lines() == ["0 0", "0 1", "0 3"]


async def test_unacked_records_come_again_with_each_new_assignment_and_never_within_one(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 6))
        await handled(b, 6)
        await ack(b, 0, 3)
        b.feed(p, records(6, 1))
        await handled(b, 7)
        assert b.lines() == [f"0 {offset}" for offset in range(7)]
        for again in (1, 2):
            await b.dispatcher.revoke([p], 10)
            p = of_records(PartitionKey("t", 0), p.checkpoint, 256)
            b.dispatcher.begin([p])
            b.feed(p, records(1, 6))
            await handled(b, 7 + 5 * again)
            assert b.lines()[-5:] == [f"0 {offset}" for offset in (1, 2, 4, 5, 6)]


async def test_a_partition_full_of_unacked_records_names_the_setting_that_helps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        p, q, r = (of_records(PartitionKey("t", number), Checkpoint(0), 8) for number in range(3))
        b.dispatcher.begin([p, q, r])
        for partition, count in ((p, 8), (q, 12), (r, 7)):
            b.feed(partition, records(0, count))
        await handled(b, 27)
        await ack(b, 8, 9, 10, 11, partition=1)
        warnings = DispatchMonitor(b.dispatcher, metrics_of(b))
        with caplog.at_level(logging.WARNING):
            warnings.look()
            warnings.look()
        told = [record.getMessage() for record in caplog.records if "unacked" in record.getMessage()]
        assert len(told) == 2
        assert "t/0 holds 8 unacked records, the first at offset 0" in told[0]
        assert told[0].endswith("it gets no more before some are acked: capacity is reached")
        assert "t/1 holds 8 unacked records" in told[1]
        assert "explicitAckSemantics: cumulative" in told[1]
        caplog.clear()
        await ack(b, 0)
        warnings.look()
        b.feed(p, records(8, 1))
        await handled(b, 28)
        warnings.look()
        assert "t/0 holds 8 unacked records, the first at offset 1" in caplog.text  # full anew


def metrics_of(b: Bench) -> TriggerMetrics:
    return b.dispatcher._state.metrics
