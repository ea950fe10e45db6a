"""Attempts of a record that fails or ends its worker, and the waits between them."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from failure_bench import FAILS_AT_5, attempts_at, order, policy
from worker_bench import QUICK, bench, records, until

from headrace.runtime.config.delivery_policy import FailurePolicy
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import is_stuck, stuck_at


def test_the_wait_doubles_with_jitter_and_never_exceeds_the_maximum() -> None:
    waits = FailurePolicy(backoff_seconds=1, max_backoff_seconds=10)
    for attempt, full in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (5000, 10)):
        found = [waits.wait_seconds(attempt) for _ in range(200)]
        assert max(found) <= full
        assert min(found) >= 0.75 * full
        assert len(set(found)) > 100


def test_attempts_are_spent_once_so_many_have_failed() -> None:
    assert [FailurePolicy(max_attempts=3).is_spent(failures) for failures in range(5)] == [False] * 3 + [
        True
    ] * 2
    assert not FailurePolicy(max_attempts=0).is_spent(10**6), "it goes on for ever"


@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_a_record_is_delivered_max_attempts_times_and_then_halts(tmp_path: Path, attempts: int) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy(attempts=attempts)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert attempts_at(b, 5) == list(range(1, attempts + 1))
        assert order(b) == [0, 1, 2, 3, 4, 5]
        assert (p.ledger.committable, is_stuck(p), stuck_at(p)) == (5, True, 5)


async def test_max_attempts_0_tries_for_ever(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.attempt < 25:
                raise ValueError("not yet")
    """
    async with bench(tmp_path, handler, policy=policy(attempts=0)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await b.settled(p, 1)
        assert attempts_at(b, 0) == list(range(1, 26))


async def test_a_partition_that_waits_holds_up_no_other(tmp_path: Path) -> None:
    slow = replace(QUICK, failure=FailurePolicy(backoff_seconds=600, max_backoff_seconds=600))
    async with bench(tmp_path, FAILS_AT_5, policy=slow) as b:
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 10))
        b.feed(good, records(0, 10))
        await until(lambda: bad.lane.state is PartitionState.BACKOFF)
        b.feed(good, records(10, 90))
        await b.settled(good, 100)
        assert attempts_at(b, 5) == [1]
        assert not is_stuck(bad)


async def test_later_records_of_a_run_are_at_their_first_attempt(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 100))
        await until(lambda: attempts_at(b, 5) == [1, 2])
        (tmp_path / "mended").touch()
        await b.settled(p, 100)
        assert all(attempts_at(b, offset) == [1] for offset in range(100) if offset != 5)
        assert order(b) == list(range(100))
        assert not p.failed


@pytest.mark.full_but("*SIGKILL)", "os._exit(0)")
@pytest.mark.parametrize(
    "dying",
    [
        "os._exit(0)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.kill(os.getpid(), signal.SIGRTMIN + 2)",
        "__import__('ctypes').string_at(0)",
        "os.kill(os.getppid(), 0) or os.abort()",
    ],
)
async def test_a_record_that_ends_its_worker_ends_in_its_policy(
    tmp_path: Path, dying: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = f"""
        def handler(context, event):
            write(f"{{event.shard_id}} {{event.offset}} {{event.attempt}}")
            if event.shard_id == 0 and event.offset in (5, 6, 7):
                {dying}
    """
    async with bench(tmp_path, handler, policy=policy("skip", attempts=2)) as b:
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 20))
        b.feed(good, records(0, 20))
        await b.settled(bad, 20)
        await b.settled(good, 20)
        assert order(b) == list(range(20))
        assert order(b, 1) == list(range(20))
        assert [attempts_at(b, offset) for offset in (4, 5, 6, 7, 8)] == [[1], [1, 2], [1, 2], [1, 2], [1]]
        assert len([line for line in b.lines() if line.startswith("1 ")]) == 20
        assert b.dispatcher.workers[0].restarts == 6
        assert "next try in" not in caplog.text, "a record's fault: the worker is replaced at once"


async def test_killed_from_outside_while_idle_blames_nobody(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        pid = b.dispatcher.workers[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: b.dispatcher.workers[0].restarts == 1)
        b.feed(p, records(2, 2))
        await b.settled(p, 4)
        assert all(attempts_at(b, offset) == [1] for offset in range(4))


async def test_the_wait_between_attempts_is_kept(tmp_path: Path) -> None:
    waits = replace(QUICK, failure=FailurePolicy(3, 0.3, 30))
    async with bench(tmp_path, FAILS_AT_5, policy=waits) as b:
        (p,) = b.assign(("t", 0))
        began = time.monotonic()
        b.feed(p, records(5, 1))
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert time.monotonic() - began >= 0.75 * (0.3 + 0.6)
