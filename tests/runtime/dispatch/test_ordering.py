"""Keys of one partition beside each other, at several workers: in order, failed, halted, given back."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from failure_bench import Journal
from worker_bench import QUICK, QUICK_RETRIES, Bench, Record, bench, kill_worker, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import problem, stuck_lane

KEYED = replace(QUICK, ordering="key")
SYNC = """
    def handler(context, event):
        write(f"start {event.key.decode()} {event.offset}")
        time.sleep(0.002)
        write(f"end {event.key.decode()} {event.offset}")
"""
ASYNC = SYNC.replace("def handler", "async def handler").replace("time.sleep", "await asyncio.sleep")
FAILS = """
    async def handler(context, event):
        write(f"{event.key.decode()} {event.offset} {event.attempt}")
        if event.body == b"no" and not exists("mended"):
            raise ValueError("no such account")
"""


def keyed(count: int, keys: int, first: int = 0) -> list[Record]:
    return [Record(offset, b"", b"k%d" % (offset % keys)) for offset in range(first, first + count)]


def overlaps_and_order(b: Bench) -> tuple[int, dict[str, list[int]]]:
    """How many keys were in handlers at the same time at most, and the order of each key's starts.

    AssertionError where one of a key began while another one ran.
    """
    running: set[str] = set()
    most, starts = 0, defaultdict[str, list[int]](list)
    for line in b.lines():
        what, key, offset = line.split()
        if what == "start":
            assert key not in running
            running.add(key)
            starts[key].append(int(offset))
            most = max(most, len(running))
        else:
            running.remove(key)
    return most, starts


@pytest.mark.full_but("handler1-policy1-1")
@pytest.mark.parametrize(
    ("handler", "policy", "workers"),
    [
        (SYNC, KEYED, 3),
        (ASYNC, replace(KEYED, max_concurrency=20), 1),
        (ASYNC, replace(KEYED, max_concurrency=4), 2),
    ],
)
async def test_keys_run_beside_each_other_and_each_in_order(
    tmp_path: Path, handler: str, policy: DeliveryPolicy, workers: int
) -> None:
    async with bench(tmp_path, handler, workers=workers, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        for first in range(0, 400, 100):
            b.feed(p, keyed(100, keys=10, first=first))
        await b.settled(p, 400)
        most, starts = overlaps_and_order(b)
        assert most > 1
        assert all(offsets == sorted(offsets) for offsets in starts.values())
        assert sum(map(len, starts.values())) == 400


async def test_what_fails_holds_up_its_key_alone(tmp_path: Path) -> None:
    patient = replace(QUICK_RETRIES, backoff_seconds=600, max_backoff_seconds=600)
    async with bench(tmp_path, FAILS, policy=replace(KEYED, failure=patient)) as b:
        (p,) = b.assign(("t", 0))
        given = keyed(20, keys=4)
        given[1].value = b"no"
        b.feed(p, given)
        others = [record.offset for record in given if record.key != b"k1"]
        await until(lambda: all(p.ledger.is_settled(offset) for offset in others))
        assert p.ledger.committable == 1
        assert p.checkpoint.attempts == ((1, 2, 1),)
        assert [lane.state for lane in p.lane.parts] == [PartitionState.BACKOFF]
        assert p.lane.state is PartitionState.ACTIVE
        assert [line for line in b.lines() if line.startswith("k1")] == ["k1 1 1"]


async def test_what_waited_for_a_dead_letter_goes_on_when_that_is_written(
    tmp_path: Path,
) -> None:
    failure = replace(QUICK_RETRIES, max_attempts=1, then="deadLetter", dead_letter_topic="dead")
    async with bench(tmp_path, FAILS, policy=replace(KEYED, failure=failure)) as b:
        journal = Journal()
        journal.gate.clear()
        b.dispatcher.connect(journal)
        (p,) = b.assign(("t", 0))
        p.limit = replace(p.limit, out_of_order=4)
        given = keyed(60, keys=60)
        for record in given[::2]:
            record.value = b"no"
        b.feed(p, given)
        await until(lambda: not p.lane.is_deliverable and not p.lane.out_count)
        journal.gate.set()
        await b.settled(p, 60)


async def test_a_key_that_is_spent_becomes_a_dead_letter_and_goes_on(tmp_path: Path) -> None:
    failure = replace(QUICK_RETRIES, max_attempts=2, then="deadLetter", dead_letter_topic="dead")
    async with bench(tmp_path, FAILS, workers=2, policy=replace(KEYED, failure=failure)) as b:
        journal = Journal()
        b.dispatcher.connect(journal)
        (p,) = b.assign(("t", 0))
        given = keyed(40, keys=4)
        given[5].value = given[2].value = b"no"
        b.feed(p, given)
        await b.settled(p, 40)
        assert sorted((record.offset, attempts) for record, _, attempts in journal.dead_letters) == [
            (2, 2),
            (5, 2),
        ]
        assert [line for line in b.lines() if line.startswith("k1")] == [
            "k1 1 1", "k1 5 1", "k1 5 2", *[f"k1 {offset} 1" for offset in range(9, 40, 4)]
        ]  # fmt: skip


@pytest.mark.parametrize("action", ["retry", "skip"])
async def test_a_key_that_has_halted_is_moved_by_hand_and_the_others_go_on(
    tmp_path: Path, action: str
) -> None:
    policy = replace(KEYED, failure=replace(QUICK_RETRIES, max_attempts=1))
    async with bench(tmp_path, FAILS, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        given = keyed(12, keys=3)
        given[4].value = b"no"
        b.feed(p, given)
        await until(lambda: stuck_lane(p) is not None and p.ledger.open_count == 3)
        assert "t/0 is halted at offset 4 after 1 attempts: ValueError: no such account" in problem(p)
        assert b.dispatcher.act("retry", p).endswith("is delivered once more")
        await until(lambda: stuck_lane(p) is not None and "k1 4 2" in b.lines())
        (tmp_path / "mended").touch()
        b.dispatcher.act(action, p)  # type: ignore[arg-type]
        await b.settled(p, 12)
        again = ["k1 4 1", "k1 4 2", *(["k1 4 3"] if action == "retry" else []), "k1 7 1", "k1 10 1"]
        assert [line for line in b.lines() if line.startswith("k1")][1:] == again
        assert problem(p) == ""


async def test_a_revoke_waits_for_what_runs_and_drops_the_rest_of_all_keys(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(event.offset)
            while not exists("go"):
                await asyncio.sleep(0.005)
    """
    async with bench(tmp_path, handler, workers=2, policy=replace(KEYED, max_concurrency=3)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, keyed(40, keys=20))
        await until(lambda: len(b.lines()) == 6)
        leaving = asyncio.create_task(b.dispatcher.revoke([p], 60))
        await until(lambda: p.lane.out_count == 6)
        (tmp_path / "go").touch()
        await leaving
        assert sorted(map(int, b.lines())) == list(range(6))
        assert (p.ledger.committable, p.unsettled) == (6, 0)


async def test_a_killed_worker_repeats_its_records_and_no_others_whatever_their_keys(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(event.offset)
            while event.offset in (3, 5) and not exists("go"):
                await asyncio.sleep(0.005)
    """
    async with bench(tmp_path, handler, policy=replace(KEYED, max_concurrency=4)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, keyed(30, keys=30))
        await until(lambda: p.ledger.open_count == 2)
        kill_worker(b)
        (tmp_path / "go").touch()
        await b.settled(p, 30)
        assert sorted(b.lines(), key=int) == sorted([*map(str, range(30)), "3", "5"], key=int)


async def test_a_hot_partition_and_a_hot_key_leave_turns_to_others(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"{event.shard_id} {event.key.decode()} {event.offset}")
            await asyncio.sleep(0.01)
    """
    async with bench(tmp_path, handler, policy=replace(KEYED, max_concurrency=2)) as b:
        hot, cold = b.assign(("t", 0), ("t", 1))
        b.dispatcher.add(hot, [Record(offset, b"", b"hot") for offset in range(50)])
        b.dispatcher.add(hot, [Record(offset, b"", b"k%d" % offset) for offset in range(50, 100)])
        b.dispatcher.add(cold, keyed(5, keys=5))
        b.dispatcher.dispatch()
        await b.settled(cold, 5)
        assert sum(line.startswith("0") for line in b.lines()) < 30
        await b.settled(hot, 100)
