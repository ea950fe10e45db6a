"""What a restart, a new owner or a kill by the runtime makes of a record's attempts."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from failure_bench import FAILS_AT_5, assign_from, attempts_at, journal_of, order, policy
from worker_bench import QUICK, bench, records, until

from headrace.runtime.config.delivery_policy import FailurePolicy
from headrace.runtime.dispatch import failure_handler
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.state import PartitionState


async def test_the_attempt_is_committed_before_the_record_is_delivered_again(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        journal = journal_of(b)
        journal.gate.clear()
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 10))
        await until(lambda: journal.persisted)
        b.feed(good, records(0, 200))
        await b.settled(good, 200)  # the backoff is long over
        assert journal.persisted == [Checkpoint(5, ((5, 6, 1),))]
        assert attempts_at(b, 5) == [1]
        journal.gate.set()
        await until(lambda: bad.lane.state is PartitionState.HALTED)
        await until(lambda: len(journal.persisted) == 3)
        assert [checkpoint.attempts for checkpoint in journal.persisted] == [((5, 6, n),) for n in (1, 2, 3)]


async def test_a_commit_that_fails_is_tried_again_before_the_record_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_handler, "_RETRY_SECONDS", 0.01)
    async with bench(tmp_path, FAILS_AT_5) as b:
        journal = journal_of(b)
        journal.is_away = True
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: len(journal.persisted) == 10)
        assert attempts_at(b, 5) == [1]
        journal.is_away = False
        await until(lambda: attempts_at(b, 5) == [1, 2, 3])


async def test_the_count_goes_on_in_the_next_assignment(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy(attempts=4)) as b:
        p = assign_from(b, Checkpoint(0, ((5, 6, 2),)))
        b.feed(p, records(0, 10))
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert attempts_at(b, 5) == [3, 4]
        assert order(b) == [0, 1, 2, 3, 4, 5]


async def test_a_halted_record_gets_exactly_one_more_delivery_in_each_new_assignment(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        p = assign_from(b, Checkpoint(5))
        for expected in ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]):
            b.feed(p, records(5, 10))
            await until(lambda p=p: p.lane.state is PartitionState.HALTED)
            await b.dispatcher.revoke([p], 10)
            assert attempts_at(b, 5) == expected
            p = assign_from(b, p.checkpoint)
        (tmp_path / "mended").touch()
        b.feed(p, records(5, 10))
        await b.settled(p, 15)
        assert attempts_at(b, 5) == [1, 2, 3, 4, 5, 6]


async def test_a_record_that_waits_for_its_next_attempt_takes_its_count_along(tmp_path: Path) -> None:
    slow = replace(QUICK, failure=FailurePolicy(backoff_seconds=600, max_backoff_seconds=600))
    async with bench(tmp_path, FAILS_AT_5, policy=slow) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.lane.state is PartitionState.BACKOFF)
        await b.dispatcher.revoke([p], 10)
        assert p.checkpoint == Checkpoint(5, ((5, 6, 1),))


async def test_a_failure_while_the_partition_leaves_counts(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            wait_for("go")
            raise ValueError("late")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(b.lines)
        revoke = asyncio.create_task(b.dispatcher.revoke([p], 20))
        await until(lambda: p.lane.state is PartitionState.REVOKED)
        (tmp_path / "go").touch()
        await revoke
        assert p.checkpoint == Checkpoint(0, ((0, 1, 1),))
        assert b.lines() == ["0"]


async def test_a_record_that_the_runtime_kills_loses_no_attempt_nor_do_those_behind(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.offset == 3 and not exists("go"):
                wait_for("never")
    """
    async with bench(tmp_path, handler) as b:
        p, _ = b.assign(("t", 0), ("t", 1))
        for number in range(3):
            b.feed(p, records(p.ledger.position, 50 - p.ledger.position))
            await until(lambda n=number: attempts_at(b, 3) == [1] * (n + 1))
            await b.dispatcher.revoke([p], 0)
            assert p.checkpoint == Checkpoint(3)
            p = assign_from(b, p.checkpoint)
        (tmp_path / "go").touch()
        b.feed(p, records(3, 50))
        await b.settled(p, 53)
        assert all(attempts_at(b, offset) == [1] for offset in range(4, 53))
        assert attempts_at(b, 3) == [1] * 4
