"""How bad records are found among the others of their batch, and what is given up."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from batch_bench import batch_bench, fresh
from failing_batches import RAISES, deliveries, policy
from worker_bench import until

from headrace.runtime.config.delivery_policy import AckMode, Then
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import stuck_at
from headrace.runtime.wire.outcomes import Ack


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
        assert not p.failed


async def test_the_bad_record_halts_its_partition_once_it_is_alone(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, RAISES, size=16, failure=policy("halt")) as b:
        p, q = b.assign(*fresh(2))
        b.feed(8, p, q)
        await until(lambda: p.lane.state is PartitionState.HALTED)
        await b.settled(8, q)
        assert p.checkpoint.offset == 5
        assert stuck_at(p) == 5
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


@pytest.mark.full_but("3")
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
        await until(lambda: p.lane.state is PartitionState.HALTED)
        b.bench.dispatcher._router.route(Ack("t", 0, 5, is_through=False), b.bench.dispatcher._acks)
        await b.settled(8, p)
        assert not p.failed
