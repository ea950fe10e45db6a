"""Records that were handled and have failed all the same: tried again, counted, and ended by onFailure."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from ack_bench import ENABLE, ONLY
from failure_bench import Journal
from refetching import Log
from worker_bench import QUICK_RETRIES, Bench, bench, kill_worker, records, until

from headrace.runtime.dispatch.monitor import DispatchMonitor
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState

HANDLES = """
import nuclio_sdk

def named(offset, partition=0):
    return nuclio_sdk.QualifiedOffset("t", partition, offset)

kept = set()
"""
# Ten of a thousand tasks raise, whenever they are tried.
TASKS = """
async def work(context, event):
    await asyncio.sleep(0.001)
    if event.offset % 100 == 7:
        raise ValueError(f"no {event.offset}")
    await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))

async def handler(context, event):
    write(f"{event.offset} {event.attempt}")
    START
"""
STARTS = {
    "create_task": "context.create_task(work(context, event), event)",
    "nack": """
    async def caught():
        try:
            await work(context, event)
        except ValueError as error:
            await context.platform.explicit_nack(nuclio_sdk.QualifiedOffset.from_event(event), str(error))
    task = asyncio.create_task(caught())
    kept.add(task)
    task.add_done_callback(kept.discard)
    """,
    "neither": """
    async def quiet():
        try:
            await work(context, event)
        except ValueError:
            pass
    task = asyncio.create_task(quiet())
    kept.add(task)
    task.add_done_callback(kept.discard)
    """,
}
TWICE = replace(QUICK_RETRIES, max_attempts=2, then="deadLetter", dead_letter_topic="dead")
BAD = list(range(7, 1000, 100))


def attempts(b: Bench, offset: int) -> list[int]:
    return [int(attempt) for at, attempt in map(str.split, b.lines()) if int(at) == offset]


@pytest.mark.full_but("create_task")
@pytest.mark.parametrize("way", ["create_task", "nack", "neither"])
async def test_tasks_that_raise_are_tried_again_then_dead_letters(tmp_path: Path, way: str) -> None:
    deadline = 0.3 if way == "neither" else None
    policy = replace(ONLY, failure=TWICE, ack_deadline_seconds=deadline)
    handler = HANDLES + TASKS.replace("START", STARTS[way])
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        log = Log(b)
        (p,) = b.assign(("t", 0))
        for first in range(0, 1000, 100):
            b.feed(p, records(first, 100))
            await until(lambda end=first + 100: p.ledger.position == end and p.ledger.open_count < 20)
        await b.settled(p, 1000)
        assert sorted(record.offset for record, *_ in log.dead_letters) == BAD
        for offset in BAD:
            assert attempts(b, offset) == [1, 2]
        others = set(range(1000)) - set(BAD)
        assert all(set(attempts(b, offset)) == {1} for offset in others)
        reason = log.dead_letters[0][1]
        assert ("ackDeadline" if way == "neither" else "no ") in reason


NACKS = """
async def handler(context, event):
    write(f"{event.offset} {event.attempt}")
    if event.body == b"nack" and event.attempt == 1:
        assert await context.platform.explicit_nack(event, "no")
    ACK
"""


@pytest.mark.parametrize("policy", [ENABLE, ONLY])
async def test_a_nack_before_the_handler_returns_counts_once_it_has(tmp_path: Path, policy: object) -> None:
    # A record that is fetched again has another body.
    ack = 'if event.attempt > 1 or event.body != b"nack": await context.platform.explicit_ack(event)'
    handler = HANDLES + NACKS.replace("ACK", ack if policy is ONLY else "pass")
    async with bench(tmp_path, handler, static=True, policy=policy) as b:  # type: ignore[arg-type]
        Log(b)
        given = records(0, 5)
        for record in given:
            record.value = b"nack" if record.offset == 2 else b""
        (p,) = b.assign(("t", 0))
        b.feed(p, given)
        await b.settled(p, 5)
        assert attempts(b, 2) == [1, 2]
        assert not p.nacked
        assert not p.failed


async def test_its_attempts_are_committed_before_it_comes_again(tmp_path: Path) -> None:
    handler = HANDLES + TASKS.replace("START", STARTS["create_task"])
    policy = replace(
        ONLY, failure=replace(TWICE, max_attempts=3, backoff_seconds=600, max_backoff_seconds=600)
    )
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        log = Log(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 20))
        await until(lambda: p.checkpoint.attempts == ((7, 8, 1),) and p.ledger.open_count == 1)
        await until(lambda: log.persisted)
        # Others go on meanwhile, and so does the count where the worker dies: the record comes again then.
        b.feed(p, records(20, 20))
        await until(lambda: p.checkpoint.acked == ((8, 40),))
        kill_worker(b)
        await until(lambda: attempts(b, 7) == [1, 2])
        await until(lambda: p.checkpoint.attempts == ((7, 8, 2),))


async def test_of_an_acked_one_and_of_one_that_was_not_handled_nothing_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = (
        HANDLES
        + """
async def handler(context, event):
    write(event.offset)
    await context.platform.explicit_ack(event)
    await context.platform.explicit_nack(event, "too late")
    await context.platform.explicit_nack(named(event.offset + 100), "too early")
    """
    )
    async with bench(tmp_path, handler, static=True, policy=ONLY) as b:
        Log(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        await until(lambda: caplog.text.count("it has not been handled") == 3)
        assert b.lines() == ["0", "1", "2"]
        assert not p.failed


async def test_one_delivery_fails_once_however_long_another_keeps_it_from_coming_again(
    tmp_path: Path,
) -> None:
    handler = (
        HANDLES
        + """
async def handler(context, event):
    write(f"{event.offset} {event.attempt}")
    if event.offset == 2:
        while not exists("go"):
            await asyncio.sleep(0.005)
    if event.offset or event.attempt > 1:
        await context.platform.explicit_ack(event)
    """
    )
    policy = replace(ONLY, failure=replace(TWICE, max_attempts=0), ack_deadline_seconds=0.1)
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        log = Log(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await until(lambda: p.awaiting_ack.is_orphan(0))
        for _ in range(20):
            b.dispatcher._redelivery._check_deadline(p, 0.0)
        assert p.failed[0].failures == 1
        (tmp_path / "go").touch()
        await b.settled(p, 3)
        assert attempts(b, 0) == [1, 2]
        assert not log.dead_letters


async def test_what_comes_again_leaves_the_deadlines_of_others_as_they_are(tmp_path: Path) -> None:
    handler = (
        HANDLES
        + """
async def handler(context, event):
    write(f"{event.offset} {event.attempt}")
    if event.offset == 1 and event.attempt < 50:
        await context.platform.explicit_nack(event, "not yet")
    elif event.offset or event.attempt > 1:
        await context.platform.explicit_ack(event)
    """
    )
    policy = replace(ONLY, failure=replace(TWICE, max_attempts=0), ack_deadline_seconds=0.3)
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        Log(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        assert attempts(b, 0) == [1, 2]
        lines = b.lines()
        assert lines.index("0 2") < lines.index("1 50")


async def test_it_comes_again_while_others_are_nacked_all_the_time(tmp_path: Path) -> None:
    handler = (
        HANDLES
        + """
async def handler(context, event):
    write(f"{event.offset} {event.attempt}")
    await asyncio.sleep(0.02)
    ack, nack = context.platform.explicit_ack, context.platform.explicit_nack
    await (ack(event) if event.attempt > 1 else nack(event, "not yet"))
    """
    )
    policy = replace(ONLY, failure=replace(TWICE, max_attempts=0, backoff_seconds=0.05))
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        Log(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 100))
        await b.settled(p, 100)
        lines = b.lines()
        assert lines.index("0 2") < lines.index("99 1")


async def test_where_returning_acks_a_nack_says_that_it_does_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = (
        HANDLES
        + """
async def fails():
    raise ValueError("no")

async def handler(context, event):
    write(await context.platform.explicit_nack(event, "no"))
    context.create_task(fails(), event)
    """
    )
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        await until(lambda: b.lines() == ["False", "False"])
        assert caplog.text.count("explicit_nack(t/0/0) does nothing") == 1
        await until(lambda: caplog.text.count("failed, which changes nothing: ") == 2)


async def test_a_partition_that_leaves_forgets_what_was_nacked(tmp_path: Path) -> None:
    handler = HANDLES + TASKS.replace("START", STARTS["create_task"])
    async with bench(tmp_path, handler, static=True, policy=replace(ONLY, failure=TWICE)) as b:
        Log(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.failed)
        await b.dispatcher.revoke([p], 5)
        assert p.checkpoint.attempts == ((7, 8, 1),)
        assert p.lane.state is PartitionState.REVOKED
        assert not b.dispatcher._redelivery._due


async def test_a_stall_is_seen_by_its_age_its_limit_and_in_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = HANDLES + TASKS.replace("START", "write(event.offset)")
    policy = replace(ONLY, max_processing_time_seconds=60)
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        b.dispatcher.connect(Limited())
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 256))
        await until(lambda: len(p.awaiting_ack) == 256)
        warnings = DispatchMonitor(b.dispatcher, TriggerMetrics(b.metrics, "", "f", "kafka-cluster", "t"))
        now = 100.0
        monkeypatch.setattr("headrace.runtime.dispatch.monitor.time.monotonic", lambda: now)
        with caplog.at_level(logging.WARNING):
            warnings.look()
            now = 130.0
            warnings.look()
        assert p.oldest_open_seconds == 30
        assert warnings.problems() == []
        assert "it gets no more before some are acked: maxInFlight is reached" in caplog.text
        now = 161.0
        warnings.look()
        (problem,) = warnings.problems()
        assert "t/0 has stood for 61 s" in problem
        assert "maxInFlight is reached" in problem
        p.on_acked(0, 1)
        warnings.look()
        assert p.oldest_open_seconds == 0


class Limited(Journal):
    """Its limit has a name."""

    def limit_of(self, partition: AssignedPartition) -> str:
        return "maxInFlight" if partition.waits_for_acks else ""
