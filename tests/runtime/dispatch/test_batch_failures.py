"""Batches that fail, and workers that die in them: who comes again, with whom, and how often."""

import asyncio
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from batch_bench import BatchBench, batch_bench, fresh
from worker_bench import until

from headrace.runtime.config.delivery import AckMode
from headrace.runtime.config.failure import FailurePolicy, Then
from headrace.runtime.partitions.assigned import PartitionState
from headrace.runtime.partitions.checkpoint import Checkpoint, Plan
from headrace.runtime.wire.frames import Ack

BAD = """
    def handler(context, events):
        see(events)
        for event in events:
            if event.shard_id == 0 and event.offset == {offset}:
                {failing}
"""
RAISES = BAD.format(offset=5, failing="raise ValueError('no')")
DIES = BAD.format(offset=5, failing="os._exit(3)")


def policy(then: Then = "skip", attempts: int = 4) -> FailurePolicy:
    return FailurePolicy(attempts, 0.01, 0.02, then, "dlq")


def deliveries(b: BatchBench, offset: int, number: int = 0) -> list[tuple[int, int]]:
    """Of one record: how many were delivered with it, and as which attempt."""
    return [
        (len(batch), attempt)
        for batch in b.seen
        for partition, o, attempt in batch
        if (partition, o) == (number, offset)
    ]


def kill_worker(b: BatchBench) -> None:
    pid = b.bench.dispatcher.workers[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


# ---- failures that the handler reports


@pytest.mark.parametrize(
    "failing",
    ["raise ValueError('no')", "sys.exit(1)", "return context.Response(status_code=500)", "return []"],
)
async def test_a_batch_that_fails_as_a_whole_comes_again_as_a_whole(tmp_path: Path, failing: str) -> None:
    handler = f"""
        def handler(context, events):
            see(events)
            if events[0].attempt < 3:
                {failing}
    """
    async with batch_bench(tmp_path, handler, size=4, failure=policy()) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(4, p)
        await b.settled(4, p)
        assert b.seen == [[(0, o, attempt) for o in range(4)] for attempt in (1, 2, 3)]
        assert p.checkpoint == Checkpoint(4)


async def test_those_that_failed_come_in_the_next_batch_while_the_others_stay_settled(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if events[0].attempt == 1:
                statuses = {0: 200, 1: None, 2: 200, 3: 299, 4: 500, 5: 404}
                return [
                    context.Response(event_id=event.id, status_code=statuses[event.offset])
                    for event in events if event.offset != 1
                ]
    """
    async with batch_bench(tmp_path, handler, size=6, failure=policy()) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(10, p)
        await b.settled(10, p)
        again = [(0, 1, 2), (0, 4, 2), *((0, o, 1) for o in range(6, 10))]
        assert b.seen == [[(0, o, 1) for o in range(6)], again]
        planned, backing_off, planned_again = (commit[0] for commit in b.source.commits)
        assert planned == Checkpoint(0, plan=Plan(0, 6))
        assert backing_off == Checkpoint(1, attempts=((1, 1), (4, 1)), acked=((2, 4), (5, 6)))
        assert planned_again == Checkpoint(1, ((1, 1), (4, 1)), Plan(1, 10), ((2, 4), (5, 6)))


async def test_each_partition_of_a_failed_batch_goes_its_own_way(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            return [context.Response(event_id=e.id) for e in events if e.shard_id != 1 or e.attempt > 1]
    """
    async with batch_bench(tmp_path, handler, size=9, timeout_seconds=0.05, workers=2) as b:
        partitions = b.assign(*fresh(3))
        b.feed(3, *partitions)
        await b.settled(3, *partitions)
        assert b.seen == [
            [(n, o, 1) for n in range(3) for o in range(3)],
            [(1, o, 2) for o in range(3)],
        ]


@pytest.mark.parametrize("then", ["skip", "deadLetter"])
async def test_one_bad_record_among_sixteen_is_found_and_alone_given_up(tmp_path: Path, then: Then) -> None:
    async with batch_bench(tmp_path, RAISES, size=16, failure=policy(then)) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(16, p)
        await b.settled(16, p)
        assert deliveries(b, 5) == [(16, 1), (16, 2), (16, 3), (16, 4), (8, 5), (4, 6), (2, 7), (1, 8)]
        assert all(b.times[0, offset] <= 8 for offset in range(16))
        fine = [batch for batch in b.offsets if 5 not in batch]
        assert sorted(offset for batch in fine for offset in batch) == [o for o in range(16) if o != 5]
        assert b.source.dead_letters == ([(0, 5, 8)] if then == "deadLetter" else [])
        assert not p.failed_records


async def test_the_bad_record_halts_its_partition_once_it_is_alone(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, RAISES, size=16, failure=policy("halt")) as b:
        p, q = b.assign(*fresh(2))
        b.feed(8, p, q)
        await until(lambda: p.state is PartitionState.HALTED)
        await b.settled(8, q)
        assert p.checkpoint.offset == 5
        assert p.stuck_at == 5
        assert deliveries(b, 5)[-1][0] == 1


async def test_a_bad_record_among_several_partitions_costs_the_others_no_more_than_the_attempts(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, RAISES, size=16, timeout_seconds=0.05, failure=policy(attempts=2)) as b:
        partitions = b.assign(*fresh(4))
        b.feed(4, *partitions)
        b.feed(4, *partitions)
        await b.settled(8, *partitions)
        assert all(times <= 3 for (number, _), times in b.times.items() if number)
        assert deliveries(b, 5)[-1][0] == 1


async def test_two_bad_records_are_both_found(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            assert not {3, 12} & {event.offset for event in events}
    """
    async with batch_bench(tmp_path, handler, size=16, failure=policy("deadLetter", attempts=2)) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(16, p)
        await b.settled(16, p)
        assert [offset for _, offset, _ in b.source.dead_letters] == [3, 12]


async def test_bad_records_that_a_list_names_are_given_up_and_no_other(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            return [context.Response(event_id=event.id) for event in events if event.offset % 5]
    """
    async with batch_bench(
        tmp_path, handler, size=10, timeout_seconds=0.02, failure=policy("deadLetter")
    ) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(20, p)
        await b.settled(20, p)
        assert [offset for _, offset, _ in b.source.dead_letters] == [0, 5, 10, 15]
        assert all(b.times[0, offset] == 1 for offset in range(20) if offset % 5)


async def test_records_that_were_never_in_trouble_go_apart_from_those_that_are_searched(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, RAISES, size=8, timeout_seconds=0.02, failure=policy(attempts=1)) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(20, p)
        await b.settled(20, p)
        assert all(len(deliveries(b, offset)) == 1 for offset in range(8, 20))


async def test_a_halted_record_gets_one_more_delivery_alone_in_a_new_assignment(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, RAISES, size=4, failure=policy("halt")) as b:
        (p,) = b.assign(Checkpoint(5, attempts=((5, 8),)))
        b.feed(4, p)
        await until(lambda: p.state is PartitionState.HALTED)
        assert b.seen == [[(0, 5, 9)]]
        assert p.checkpoint == Checkpoint(5, attempts=((5, 9),))


async def test_a_halted_record_is_tried_alone_when_an_operator_says_so(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, RAISES, size=4, timeout_seconds=0.02, failure=policy("halt", 1)) as b:
        (p,) = b.assign(Checkpoint(5))
        b.feed(1, p)
        await until(lambda: p.state is PartitionState.HALTED)
        b.feed(10, p)
        b.bench.dispatcher.act("retry", p)
        await until(lambda: len(b.seen) == 2 and p.state is PartitionState.HALTED)
        assert b.seen == [[(0, 5, 1)], [(0, 5, 2)]]
        b.bench.dispatcher.act("skip", p)
        await b.settled(16, p)
        assert all(b.times[0, offset] == 1 for offset in range(6, 16))


async def test_failed_attempts_are_committed_before_the_next_one(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, RAISES, size=3, failure=policy(attempts=2)) as b:
        (p,) = b.assign(Checkpoint(3))
        b.feed(3, p)
        await b.settled(6, p)
        assert [commit[0] for commit in b.source.commits[:3]] == [
            Checkpoint(3, plan=Plan(3, 6)),
            Checkpoint(3, attempts=((3, 1), (4, 1), (5, 1))),
            Checkpoint(3, attempts=((3, 1), (4, 1), (5, 1)), plan=Plan(3, 6)),
        ]


async def test_a_large_batch_that_fails_as_a_whole_does_not_hold_up_the_processor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def handler(context, events):
            write(len(events))
            if events[0].attempt == 1:
                raise ValueError("no")
    """
    count = 100_000
    async with batch_bench(tmp_path, handler, size=count, failure=policy()) as b:
        (p,) = b.assign(*fresh(1), capacity=2 * count)
        b.feed(count, p)
        longest = await longest_silence_until(lambda: p.ledger.committable == count)
        assert b.bench.lines() == [str(count)] * 2
        assert longest < 2
    assert len(caplog.records) < 50


async def longest_silence_until(condition: object) -> float:
    """Until the condition holds: the most processor time in which the loop gave nobody else a turn."""
    assert callable(condition)
    longest, last = 0.0, time.thread_time()
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.thread_time() - last), time.thread_time()
    return longest


# ---- eventTimeout


async def test_a_sync_batch_past_event_timeout_is_killed_and_all_of_it_has_failed(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            if events[0].attempt == 1:
                wait_for("never")
    """
    async with batch_bench(tmp_path, handler, size=3, failure=policy(), event_timeout_seconds=0.2) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(3, p)
        await b.settled(3, p)
        assert b.seen == [[(0, o, attempt) for o in range(3)] for attempt in (1, 2)]
        assert b.bench.dispatcher.workers[0].restarts == 1


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
    async with batch_bench(tmp_path, handler, size=3, failure=policy(), event_timeout_seconds=0.2) as b:
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
    async with batch_bench(tmp_path, handler, size=2, failure=policy(), event_timeout_seconds=0.1) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(2, p)
        await b.settled(2, p)
        assert b.seen == [[(0, 0, attempt), (0, 1, attempt)] for attempt in (1, 2)]
        assert b.bench.dispatcher.workers[0].restarts == 1


# ---- workers that die


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
        await until(lambda: p.state is PartitionState.HALTED)
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
        kill_worker(b)
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


# ---- all of it at once

CHAOS = """
    import random
    def tell(kind, events):
        write(" ".join(f"{kind}/{event.shard_id}/{event.offset}" for event in events), "outcomes")

    def handler(context, events):
        see(events)
        dice = random.random() if all(event.attempt < 3 for event in events) else 1
        if any(event.offset % 20 == 13 for event in events):
            dice = min(dice, 0.2)
        if dice < 0.1:
            if len(events) == 1:
                tell("failed", events)  # a death alone counts
            os._exit(3)
        if dice <= 0.2:
            tell("failed", events)
            raise ValueError("no")
        good = [event for event in events if dice > 0.3 or random.random() < 0.5]
        tell("failed", [event for event in events if event not in good])
        tell("fine", good)
        return [context.Response(event_id=event.id) for event in good]
"""


@pytest.mark.parametrize("workers", [1, 3])
async def test_whatever_goes_wrong_each_record_is_handled_or_given_up_once_and_in_order(
    tmp_path: Path, workers: int
) -> None:
    async with batch_bench(
        tmp_path, CHAOS, size=8, timeout_seconds=0.01, workers=workers, failure=policy("deadLetter", 3)
    ) as b:
        partitions = b.assign(*fresh(3))
        for _ in range(4):
            b.feed(10, *partitions)
            await asyncio.sleep(0.02)
        await b.settled(40, *partitions)
        given_up = sorted((number, offset) for number, offset, _ in b.source.dead_letters)
        assert given_up == [(number, offset) for number in range(3) for offset in (13, 33)]
        told = [said.split("/") for line in b.bench.lines("outcomes") for said in line.split()]
        fine = [(int(number), int(offset)) for kind, number, offset in told if kind == "fine"]
        everything = {(number, offset) for number in range(3) for offset in range(40)}
        assert sorted(fine) == sorted(everything - set(given_up))
        failures = Counter((int(number), int(offset)) for kind, number, offset in told if kind == "failed")
        last = {(number, offset): attempt for batch in b.seen for number, offset, attempt in batch}
        assert all(last[key] == failures[key] + (key not in given_up) for key in everything)
        for number in range(3):
            first_seen = [o for n, o in b.times if n == number]  # a Counter keeps the order of arrival
            assert first_seen == list(range(40))


async def test_a_record_that_is_acked_elsewhere_ends_the_search_for_it(tmp_path: Path) -> None:
    async with batch_bench(
        tmp_path, RAISES, size=8, static=True, failure=policy("halt", 2), ack_mode=AckMode.ENABLE
    ) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(8, p)
        await until(lambda: p.state is PartitionState.HALTED)
        b.bench.dispatcher.on_acked(Ack("t", 0, 5, is_through=False))
        await b.settled(8, p)
        assert not p.failed_records
