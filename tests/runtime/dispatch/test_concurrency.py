"""Several records of a worker in an async handler at once: acked, failed, cancelled and killed one by one."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from worker_bench import QUICK, Bench, Record, bench, kill_worker, records, until

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy
from headrace.runtime.partitions.partition import AssignedPartition

EIGHT = replace(QUICK, max_concurrency=8)
# Each record waits until its own file is there.
GATED = """
    async def handler(context, event):
        at = f"{event.topic}/{event.shard_id} {event.offset}"
        write(f"start {at} attempt {event.attempt}")
        while not exists(f"go {event.shard_id} {event.offset}") and not exists("go"):
            await asyncio.sleep(0.005)
        write(f"end {at}")
"""


def begun(b: Bench) -> int:
    return sum(line.startswith("start") for line in b.lines())


def let_go(b: Bench, partition: AssignedPartition, offset: int) -> None:
    (b.folder / f"go {partition.key.partition} {offset}").touch()


async def eight(b: Bench, each: int = 2) -> list[AssignedPartition]:
    """So many records of eight partitions, of which the first ones have begun."""
    partitions = b.assign(*[("t", number) for number in range(8)])
    for partition in partitions:
        b.feed(partition, records(0, each))
    await until(lambda: begun(b) == 8)
    return partitions


async def test_records_of_different_partitions_overlap_and_those_of_one_do_not(tmp_path: Path) -> None:
    async with bench(tmp_path, GATED, policy=EIGHT) as b:
        partitions = await eight(b)
        assert {line.split()[2] for line in b.lines()} == {"0"}
        assert len(b.dispatcher.workers[0].running()) == 8
        for partition in reversed(partitions):
            let_go(b, partition, 0)
            await b.settled(partition, 1)
            await until(lambda number=partition.key.partition: f"start t/{number} 1 attempt 1" in b.lines())
        (tmp_path / "go").touch()
        for partition in partitions:
            await b.settled(partition, 2)
        lines = b.lines()
        for number in range(8):
            assert lines.index(f"end t/{number} 0") < lines.index(f"start t/{number} 1 attempt 1")


async def test_no_more_run_at_once_than_that(tmp_path: Path) -> None:
    async with bench(tmp_path, GATED, policy=replace(QUICK, max_concurrency=3)) as b:
        partitions = b.assign(*[("t", number) for number in range(8)])
        for partition in partitions:
            b.feed(partition, records(0, 4))
        await until(lambda: begun(b) == 3)
        (tmp_path / "go").touch()
        for partition in partitions:
            await b.settled(partition, 4)
        running = most = 0
        for line in b.lines():
            running += 1 if line.startswith("start") else -1
            most = max(most, running)
        assert most == 3


async def test_one_that_fails_is_tried_again_while_the_others_go_on(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"start {event.shard_id} {event.offset} {event.attempt}")
            if event.shard_id == 3 and not event.offset and event.attempt < 3:
                raise ValueError("not yet")
            while event.shard_id and not exists("go"):
                await asyncio.sleep(0.005)
    """
    async with bench(tmp_path, handler, policy=EIGHT) as b:
        partitions = b.assign(*[("t", number) for number in range(8)])
        for partition in partitions:
            b.feed(partition, records(0, 3))
        await b.settled(partitions[0], 3)
        await until(lambda: "start 3 0 3" in b.lines())
        (tmp_path / "go").touch()
        for partition in partitions:
            await b.settled(partition, 3)
        assert [line for line in b.lines() if line.startswith("start 3")] == [
            "start 3 0 1",
            "start 3 0 2",
            "start 3 0 3",
            "start 3 1 1",
            "start 3 2 1",
        ]


async def test_what_waits_for_its_turn_on_the_loop_is_not_to_blame_for_a_death(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"start {event.shard_id} attempt {event.attempt}")
            if event.shard_id == 0:
                wait_for("open")
            if event.shard_id == 1 and not exists("held up"):
                write("by 1", "held up")
                wait_for("never")
    """
    async with bench(tmp_path, handler, policy=EIGHT) as b:
        first, *others = b.assign(*[("t", number) for number in range(5)])
        b.feed(first, records(0, 1))
        await until(lambda: begun(b) == 1)
        for partition in others:
            b.feed(partition, records(0, 1))
        await until(lambda: len(b.dispatcher.workers[0].in_flight) == 5)
        (tmp_path / "open").touch()
        await until(lambda: begun(b) == 2)
        kill_worker(b)
        for partition in (first, *others):
            await b.settled(partition, 1)
        assert b.lines()[:2] == ["start 0 attempt 1", "start 1 attempt 1"]
        # Whether 1 is to blame, or a suspect beside others, is up to how much the worker had read by then.
        assert {line for line in b.lines()[2:] if not line.startswith(("start 0", "start 1"))} == {
            "start 2 attempt 1",
            "start 3 attempt 1",
            "start 4 attempt 1",
        }


async def test_a_late_one_is_cancelled_and_nobody_else(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            try:
                if event.shard_id == 5 and not event.offset and event.attempt == 1:
                    await asyncio.Event().wait()
                await asyncio.sleep(0.3 * (event.shard_id == 1))
            except asyncio.CancelledError:
                write(f"cancelled {event.shard_id}")
                raise
    """
    policy = replace(EIGHT, event_timeout_seconds=2.0)
    async with bench(tmp_path, handler, policy=policy) as b:
        partitions = b.assign(*[("t", number) for number in range(8)])
        for partition in partitions:
            b.feed(partition, records(0, 4))
        for partition in partitions:
            await b.settled(partition, 4)
        assert b.lines() == ["cancelled 5"]
        assert b.dispatcher.workers[0].restarts == 0


async def test_one_that_lets_nothing_turn_is_killed_for_and_fails_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        async def handler(context, event):
            write(f"{event.shard_id} {event.attempt}")
            if event.shard_id == 2 and event.attempt == 1:
                while not exists("both"):
                    await asyncio.sleep(0.005)
                wait_for("never")
            while not exists("go"):
                await asyncio.sleep(0.005)
    """
    async with bench(tmp_path, handler, policy=replace(EIGHT, event_timeout_seconds=2.0)) as b:
        late, other = b.assign(("t", 2), ("t", 3))
        b.feed(other, records(0, 1))
        b.feed(late, records(0, 1))
        await until(lambda: len(b.lines()) == 2)
        (tmp_path / "both").touch()
        await until(lambda: b.dispatcher.workers[0].restarts == 1)
        (tmp_path / "go").touch()
        await b.settled(late, 1)
        await b.settled(other, 1)
        assert "2 2" in b.lines()
        assert "3 2" not in b.lines(), "it was older, and could not go on"
        assert "ran past eventTimeout" in caplog.text


async def test_one_that_could_not_begin_is_not_late(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"{event.shard_id} {event.attempt}")
            if event.shard_id == 0 and event.attempt == 1:
                time.sleep(3)  # the other was given its place with this one
    """
    async with bench(tmp_path, handler, policy=replace(EIGHT, event_timeout_seconds=2.0)) as b:
        blocks, other = b.assign(("t", 0), ("t", 1))
        b.dispatcher.add(blocks, records(0, 1))
        b.dispatcher.add(other, records(0, 1))
        b.dispatcher.dispatch()
        await b.settled(blocks, 1)
        await b.settled(other, 1)
        assert sorted(b.lines()) == ["0 1", "0 2", "1 1"]
        assert b.dispatcher.workers[0].restarts == 0


async def test_a_death_by_itself_makes_suspects_which_run_alone_and_only_the_guilty_one_fails(
    tmp_path: Path,
) -> None:
    handler = """
        async def handler(context, event):
            write(f"start {event.shard_id} {event.offset} {event.attempt}")
            if event.shard_id == 4 and event.offset == 0:
                while not exists("die"):
                    await asyncio.sleep(0.005)
                os.kill(os.getpid(), signal.SIGKILL)
            while not exists("go"):
                await asyncio.sleep(0.005)
            write(f"end {event.shard_id} {event.offset}")
    """
    policy = replace(EIGHT, failure=replace(QUICK.failure, then="skip"))
    async with bench(tmp_path, handler, policy=policy) as b:
        partitions = b.assign(*[("t", number) for number in range(8)])
        for partition in partitions:
            b.feed(partition, records(0, 2))
        await until(lambda: len(b.lines()) == 8)
        (tmp_path / "die").touch()
        await until(lambda: b.dispatcher.workers[0].restarts == 1)
        (tmp_path / "go").touch()
        for partition in partitions:
            await b.settled(partition, 2)
        lines = b.lines()
        assert [line for line in lines if line.startswith("start 4 0")] == [
            f"start 4 0 {attempt}" for attempt in (1, 1, 2, 3)
        ]
        # Of the others none has failed, and while one ran that may be to blame nothing else did.
        assert all(line.endswith(" 1") for line in lines if line.startswith("start") and " 4 0 " not in line)
        after = lines[8:]
        suspects = [at for at, line in enumerate(after) if line.startswith("start") and " 0 " in line[7:]]
        for at in suspects:
            if not after[at].startswith("start 4"):
                assert after[at + 1] == f"end {after[at].split()[1]} 0"


async def test_a_kill_by_a_person_repeats_what_ran_and_no_more(tmp_path: Path) -> None:
    async with bench(tmp_path, GATED, policy=EIGHT) as b:
        partitions = await eight(b, each=3)
        for partition in partitions[:4]:
            let_go(b, partition, 0)
            await b.settled(partition, 1)
        await until(lambda: begun(b) == 12)
        kill_worker(b)
        (tmp_path / "go").touch()
        for partition in partitions:
            await b.settled(partition, 3)
        starts = [line for line in b.lines() if line.startswith("start")]
        assert len(starts) == len({line.rsplit(" attempt", 1)[0] for line in starts}) + 8


async def test_a_partition_that_leaves_gives_back_what_has_not_begun(tmp_path: Path) -> None:
    async with bench(tmp_path, GATED, policy=EIGHT) as b:
        partitions = await eight(b)
        leaving = asyncio.create_task(b.dispatcher.revoke(partitions[:4], 60))
        await until(lambda: all(p.lane.in_flight_count == 1 for p in partitions[:4]))
        (tmp_path / "go").touch()
        await leaving
        assert [p.ledger.committable for p in partitions[:4]] == [1] * 4
        for partition in partitions[4:]:
            await b.settled(partition, 2)


async def test_acks_count_whoever_makes_them_and_when(tmp_path: Path) -> None:
    handler = """
        import nuclio_sdk
        kept = []

        async def later(context, event):
            while not exists("ack"):
                await asyncio.sleep(0.005)
            await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))

        async def handler(context, event):
            kept.append(asyncio.create_task(later(context, event)))
            await asyncio.sleep(0.01)
            write(event.offset)
    """
    policy = replace(EIGHT, ack_mode=AckMode.EXPLICIT_ONLY)
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        partitions = b.assign(*[("t", number) for number in range(8)])
        b.dispatcher.on_assigned([partition.key for partition in partitions])
        for partition in partitions:
            b.feed(partition, records(0, 5))
        await until(lambda: all(len(partition.awaiting_ack) == 5 for partition in partitions))
        assert not any(partition.ledger.committable for partition in partitions)
        (tmp_path / "ack").touch()
        for partition in partitions:
            await b.settled(partition, 5)


async def test_a_response_may_ask_not_to_be_acked(tmp_path: Path) -> None:
    handler = """
        import nuclio_sdk

        async def handler(context, event):
            await asyncio.sleep(0)
            response = nuclio_sdk.Response()
            if event.offset % 2:
                response.ensure_no_ack()
            return response
    """
    policy = replace(EIGHT, ack_mode=AckMode.ENABLE)
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 6))
        await until(lambda: set(p.awaiting_ack) == {1, 3, 5} and not p.lane.in_flight_count)
        assert p.checkpoint.acked == ((2, 3), (4, 5))


async def test_lines_belong_to_the_record_that_their_task_works_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        import logging

        async def part(event):
            await asyncio.sleep(0.01)
            logging.getLogger("mine").info("part %d", event.shard_id)

        async def handler(context, event):
            tasks = [asyncio.create_task(part(event)) for _ in range(2)]
            await asyncio.gather(*tasks)
            context.logger.info(f"whole {event.shard_id}")
    """
    caplog.set_level(logging.INFO)
    async with bench(tmp_path, handler, policy=EIGHT) as b:
        partitions = b.assign(*[("t", number) for number in range(8)])
        for partition in partitions:
            b.feed(partition, records(7, 1))
        for partition in partitions:
            await b.settled(partition, 8)
        said = [
            (line.getMessage().split(), line.bound["partition"], line.bound["offset"])  # type: ignore[attr-defined]
            for line in caplog.records
            if line.getMessage().startswith(("part", "whole"))
        ]
        assert len(said) == 24
        assert all((int(number), 7) == (place, offset) for (_, number), place, offset in said)


@pytest.mark.parametrize("word", ["async ", ""])
async def test_a_task_of_an_earlier_record_logs_for_that_one(
    tmp_path: Path, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = f"""
        kept = []

        async def later(context, offset):
            while not exists("go"):
                await asyncio.sleep(0.005)
            context.logger.info(f"later {{offset}}")

        {word}def handler(context, event):
            kept.append(asyncio.create_task(later(context, event.offset)))
            if event.offset == 2:
                write("all")
    """
    caplog.set_level(logging.INFO)
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        (tmp_path / "go").touch()
        await until(lambda: caplog.text.count("later") == 3)
        said = [line for line in caplog.records if "later" in line.getMessage()]
        pairs = [(line.getMessage(), line.bound["offset"]) for line in said]  # type: ignore[attr-defined]
        assert sorted(pairs) == [(f"later {offset}", offset) for offset in range(3)]


async def test_a_sync_handler_runs_one_at_a_time_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, "def handler(context, event): pass", policy=EIGHT) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await b.settled(p, 10)
        assert caplog.text.count("maxConcurrency 8 has no effect") == 1


KEYED: DeliveryPolicy = replace(EIGHT, ordering="key")


async def test_keys_overlap_in_one_partition(tmp_path: Path) -> None:
    async with bench(tmp_path, GATED, policy=KEYED) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, [Record(offset, b"", b"%d" % (offset % 4)) for offset in range(8)])
        await until(lambda: begun(b) == 4)
        assert {line.split()[2] for line in b.lines()} == {"0", "1", "2", "3"}
        let_go(b, p, 2)
        await until(lambda: "start t/0 6 attempt 1" in b.lines())
        await until(lambda: p.checkpoint.acked == ((2, 3),))
        (tmp_path / "go").touch()
        await b.settled(p, 8)
