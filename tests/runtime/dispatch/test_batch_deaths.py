"""Batches past eventTimeout, and workers that die in a batch."""

import re
from pathlib import Path

import pytest
from batch_bench import batch_bench, fresh
from failing_batches import DIES, deliveries, policy
from worker_bench import kill_worker, until

from headrace.runtime.partitions.state import PartitionState


async def test_a_sync_batch_past_event_timeout_is_killed_and_all_of_it_has_failed(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if events[0].attempt == 1:
                wait_for("never")
    """
    async with batch_bench(tmp_path, handler, size=3, failure=policy(), event_timeout_seconds=2.0) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(3, p)
        await b.settled(3, p)
        assert b.seen == [[(0, o, attempt) for o in range(3)] for attempt in (1, 2)]
        assert b.bench.dispatcher.workers[0].restarts == 1


@pytest.mark.usefixtures("patient_watchdog")
async def test_an_async_batch_past_event_timeout_is_cancelled_and_all_of_it_has_failed(
    tmp_path: Path,
) -> None:
    handler = """
        async def handler(context, events):
            see(events)
            if events[0].attempt == 1:
                try:
                    await asyncio.sleep(60)
                finally:
                    write("cancelled", "cancelled")
    """
    async with batch_bench(tmp_path, handler, size=3, failure=policy(), event_timeout_seconds=2.0) as b:
        p, q = b.assign(*fresh(2))
        b.feed(2, p)
        b.feed(1, q)
        await b.settled(2, p)
        await b.settled(1, q)
        assert b.times == {(0, 0): 2, (0, 1): 2, (1, 0): 2}
        assert b.bench.lines("cancelled") == ["cancelled"]
        assert b.bench.dispatcher.workers[0].restarts == 0


async def test_an_async_batch_that_ignores_its_cancellation_is_killed(tmp_path: Path) -> None:
    handler = """
        async def handler(context, events):
            see(events)
            while events[0].attempt == 1:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass
    """
    async with batch_bench(tmp_path, handler, size=2, failure=policy(), event_timeout_seconds=2.0) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(2, p)
        await b.settled(2, p)
        assert b.seen == [[(0, 0, attempt), (0, 1, attempt)] for attempt in (1, 2)]
        assert b.bench.dispatcher.workers[0].restarts == 1


async def test_a_record_that_kills_its_worker_dies_alone_in_the_end_and_all_others_are_handled(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, DIES, size=8, failure=policy("deadLetter", 2)) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(8, p)
        await b.settled(8, p)
        together = [(0, o, 1) for o in range(8)]
        alone = [[(0, o, 1)] for o in range(6)]
        assert b.seen == [together, together, *alone, [(0, 5, 2)], [(0, 6, 1)], [(0, 7, 1)]]
        assert b.source.dead_letters == [(0, 5, 2)]
        assert b.bench.dispatcher.workers[0].restarts == 4


async def test_a_deadly_record_costs_the_partitions_that_shared_its_batch_one_repetition(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, DIES, size=16, failure=policy("halt", 1)) as b:
        p, q = b.assign(*fresh(2))
        b.feed(8, p, q)
        await until(lambda: p.lane.state is PartitionState.HALTED)
        await b.settled(8, q)
        assert deliveries(b, 5) == [(16, 1), (8, 1), (1, 1)]
        assert {len(deliveries(b, offset, number=1)) for offset in range(8)} == {2}
        assert [(1, o, 1) for o in range(8)] in b.seen


async def test_a_death_in_a_batch_of_several_attempts_repeats_it_once_as_it_was(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if len(events) == 4 and events[0].attempt == 1:
                return [context.Response(event_id=event.id) for event in events[2:]]
            if not exists("died"):
                write("", "died")
                os._exit(3)
    """
    async with batch_bench(tmp_path, handler, size=4, failure=policy()) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(6, p)
        await b.settled(6, p)
        again = [(0, 0, 2), (0, 1, 2), (0, 4, 1), (0, 5, 1)]
        assert b.seen == [[(0, o, 1) for o in range(4)], again, again]


async def test_a_batch_of_one_comes_again_as_it_was_although_its_death_counts(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if not exists("go"):
                wait_for("never")
    """
    async with batch_bench(tmp_path, handler, size=5, timeout_seconds=0.02, failure=policy()) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(1, p)
        await until(lambda: b.seen)
        b.feed(5, p)
        (tmp_path / "go").touch()
        kill_worker(b.bench)
        await b.settled(6, p)
        assert b.seen == [[(0, 0, 1)], [(0, 0, 2)], [(0, o, 1) for o in range(1, 6)]]


async def test_a_batch_that_is_killed_for_a_rebalance_says_so_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def handler(context, events):
            see(events)
            time.sleep(600)
    """
    async with batch_bench(tmp_path, handler, size=8, timeout_seconds=0.02) as b:
        partitions = b.assign(*fresh(3))
        b.feed(2, *partitions)
        await until(lambda: b.seen)
        await b.bench.dispatcher.revoke(partitions, 0.05)
    (told,) = (it.getMessage() for it in caplog.records if "was killed" in it.getMessage())
    where = "t/0 offsets 0 to 1, t/1 offsets 0 to 1, t/2 offsets 0 to 1"
    assert re.sub(r"py:\d+;", "py:LINE;", told) == (
        f"worker 0 was killed in {where}: its partitions leave (a rebalance or a stop), and its handler has "
        "not ended in time, in handler, function_code.py:LINE; what isn't acked of that is delivered again"
    )


async def test_a_worker_killed_from_outside_repeats_its_batch_and_counts_nothing(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if not exists("go"):
                wait_for("never")
    """
    async with batch_bench(tmp_path, handler, size=5, failure=policy()) as b:
        p, q = b.assign(*fresh(2))
        b.feed(3, p)
        b.feed(2, q)
        await until(lambda: b.seen)
        b.feed(5, p)
        (tmp_path / "go").touch()
        kill_worker(b.bench)
        await b.settled(8, p)
        await b.settled(2, q)
        assert b.seen[1:] == [
            [(0, o, 1) for o in range(3)],
            [(1, o, 1) for o in range(2)],
            [(0, o, 1) for o in range(3, 8)],
        ]


async def test_after_a_batch_that_went_well_a_death_is_the_first_again(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if not exists(str(events[0].offset)):
                write("", str(events[0].offset))
                os._exit(3)
    """
    async with batch_bench(tmp_path, handler, size=3, failure=policy()) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(9, p)
        await b.settled(9, p)
        assert b.offsets == [list(range(f, f + 3)) for f in (0, 0, 3, 3, 6, 6)]
