"""What handlers produce: no record is settled before all of its messages are confirmed. Real workers."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from produce_bench import producing
from worker_bench import QUICK, kill_worker, records, until

from headrace.runtime.config.delivery_policy import AckMode, BatchPolicy, FailurePolicy
from headrace.runtime.wire.produce import PRODUCE_WINDOW_BYTES, DeliveryReport, not_yet_written

SENDS = """
    def handler(context, event):
        write(f"start {event.offset} attempt {event.attempt}")
        context.produce("out", event.body, key=str(event.offset))
"""


async def test_a_record_is_settled_once_its_message_is_confirmed_and_others_go_on(tmp_path: Path) -> None:
    async with producing(tmp_path, SENDS) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 3))
        await until(lambda: cluster.values == [b"0", b"1", b"2"] and not partition.lane.in_flight_count)
        assert partition.checkpoint.offset == 0
        cluster.confirm(b"1", b"2")
        assert partition.checkpoint.offset == 0
        assert partition.checkpoint.acked == ((1, 3),)
        cluster.confirm(b"0")
        assert partition.checkpoint.offset == 3
        assert not partition.pending
        assert not partition.awaiting_ack
        assert [message.key for message, _ in cluster.sent] == []
        assert len(b.lines()) == 3


async def test_what_can_not_be_written_fails_its_record(tmp_path: Path) -> None:
    async with producing(tmp_path, SENDS) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 3))
        await until(lambda: len(cluster.sent) == 3 and not partition.lane.in_flight_count)
        cluster.confirm(b"1", failure="there is no such topic")
        cluster.confirm()
        assert partition.checkpoint.offset == 1
        assert partition.failed[1].reason == "there is no such topic"


@pytest.mark.parametrize("is_confirmed", [True, False])
async def test_the_death_of_a_worker_that_has_handed_it_on_changes_nothing(
    tmp_path: Path, *, is_confirmed: bool
) -> None:
    async with producing(tmp_path, SENDS) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: cluster.sent and not partition.lane.in_flight_count)
        if is_confirmed:
            cluster.confirm()
        worker = b.dispatcher.workers[0]
        kill_worker(b)
        await until(lambda: worker.restarts == 1 and worker.is_ready)
        if not is_confirmed:
            assert partition.checkpoint.offset == 0
            cluster.confirm()
        assert partition.checkpoint.offset == 1
        assert b.lines() == ["start 0 attempt 1"]


async def test_a_handler_that_fails_later_is_tried_again_and_produces_again(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            context.produce("out", f"{event.offset} {event.attempt}")
            if event.attempt == 1:
                raise ValueError("later")
    """
    async with producing(tmp_path, handler) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: cluster.values == [b"0 1", b"0 2"])
        cluster.confirm(b"0 1")
        assert partition.checkpoint.offset == 0
        await until(lambda: not partition.lane.in_flight_count)
        cluster.confirm()
        assert partition.checkpoint.offset == 1


async def test_all_that_a_batch_produces_belongs_to_all_of_it(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            for event in events[:2]:
                context.produce("out", event.body)
    """
    policy = replace(QUICK, batch=BatchPolicy(4, 10))
    async with producing(tmp_path, handler, policy) as (b, cluster):
        one, other = b.assign(("t", 0), ("t", 1))
        b.feed(one, records(0, 2))
        b.feed(other, records(0, 2))
        await until(
            lambda: len(cluster.sent) == 2 and not one.lane.in_flight_count + other.lane.in_flight_count
        )
        cluster.confirm(b"0")
        assert (one.checkpoint.offset, other.checkpoint.offset) == (0, 0)
        cluster.confirm()
        assert (one.checkpoint.offset, other.checkpoint.offset) == (2, 2)


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_partition_waits_behind_a_message_that_can_not_be_written_now_and_others_go_on(
    tmp_path: Path, *, exactly_once: bool
) -> None:
    policy = replace(QUICK, exactly_once=exactly_once)
    async with producing(tmp_path, SENDS, policy) as (b, cluster):
        one, other = b.assign(("t", 0), ("t", 1))
        b.feed(one, records(0, 1))
        await until(lambda: one.pending and not one.lane.in_flight_count)
        outgoing = one.pending.outgoing([(0, 1)]) if exactly_once else cluster.sent
        ((message, done),) = outgoing
        for _ in range(2):  # each time that it is tried
            done(not_yet_written(message))
        b.feed(one, records(1, 3))
        b.feed(other, records(0, 3))
        await until(lambda: len(other.pending) == 3 and not other.lane.in_flight_count)
        assert not one.lane.is_deliverable
        assert one.ledger.committable == 1
        assert not one.failed
        done(DeliveryReport(0, 0))
        await until(lambda: len(one.pending) == 3 and not one.lane.in_flight_count)
        assert [line for line in b.lines() if line.endswith("attempt 1")] == b.lines()


async def test_a_handler_goes_on_where_its_messages_wait_and_what_follows_its_record_comes_back(
    tmp_path: Path,
) -> None:
    """Else it would wait for room in vain, until it is stopped for the time that it takes."""
    handler = f"""
        def handler(context, event):
            for _ in range(6):
                context.produce("out", event.body + b"x" * {PRODUCE_WINDOW_BYTES // 4})
            write(event.offset)
    """
    async with producing(tmp_path, handler) as (b, cluster):
        b.expect_quick_handlers()
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 3))
        await until(lambda: len(cluster.sent) == 3)
        cluster.wait()
        await until(lambda: len(cluster.sent) == 6)
        cluster.wait()
        await until(lambda: not partition.lane.in_flight_count)
        assert b.lines() == ["0"]
        assert partition.ledger.committable == 1

        def is_done() -> bool:
            cluster.confirm()
            return partition.checkpoint.offset == 3

        await until(is_done)
        assert b.lines() == ["0", "1", "2"]


@pytest.mark.parametrize("has_returned", [True, False])
async def test_a_refused_message_of_a_batch_puts_no_single_record_of_it_to_blame(
    tmp_path: Path, *, has_returned: bool
) -> None:
    handler = """
        def handler(context, events):
            context.produce("out", events[0].body)
            if not exists("go on"):
                wait_for("go on")
    """
    if has_returned:
        (tmp_path / "go on").touch()
    once = FailurePolicy(max_attempts=1, backoff_seconds=1000, max_backoff_seconds=1000)
    policy = replace(QUICK, batch=BatchPolicy(4, 10), failure=once)
    async with producing(tmp_path, handler, policy) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 4))
        await until(lambda: cluster.sent and not (has_returned and partition.lane.in_flight_count))
        cluster.confirm(failure="it is too large")
        (tmp_path / "go on").touch()
        await until(lambda: len(partition.failed) == 4)
        failed = partition.failed.values()
        assert {(it.reason, it.among, it.batch_limit, it.is_refused) for it in failed} == {
            ("it is too large", 4, 2, False)
        }
        assert partition.checkpoint.offset == 0


@pytest.mark.parametrize(("acked", "spans"), [([0], ()), ([2], ((2, 3),)), ([0, 2], ((2, 3),))])
async def test_what_a_batch_produces_holds_back_all_of_it_that_is_not_acked_yet(
    tmp_path: Path, acked: list[int], spans: tuple[tuple[int, int], ...]
) -> None:
    """Whichever record of it was acked: what was may be committed already, and no commit moves back."""
    handler = f"""
        async def handler(context, events):
            for at in {acked}:
                await context.platform.explicit_ack(events[at])
            context.produce("out", b"x")
    """
    policy = replace(QUICK, batch=BatchPolicy(3, 10), ack_mode=AckMode.ENABLE)
    async with producing(tmp_path, handler, policy) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.dispatcher.on_assigned([partition.key])
        b.feed(partition, records(0, 3))
        await until(lambda: cluster.sent and not partition.lane.in_flight_count)
        first = 1 if 0 in acked else 0
        assert (partition.checkpoint.offset, partition.checkpoint.acked) == (first, spans)
        cluster.confirm()
        assert partition.checkpoint.offset == 3


async def test_an_ack_counts_once_all_is_confirmed(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            context.produce("out", event.body)
            await context.platform.explicit_ack(event)
    """
    policy = replace(QUICK, ack_mode=AckMode.EXPLICIT_ONLY)
    async with producing(tmp_path, handler, policy) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.dispatcher.on_assigned([partition.key])
        b.feed(partition, records(0, 2))
        await until(lambda: len(cluster.sent) == 2 and not partition.lane.in_flight_count)
        assert partition.checkpoint.offset == 0
        cluster.confirm(b"0")
        assert partition.checkpoint.offset == 1
        cluster.confirm()
        assert partition.checkpoint.offset == 2


@pytest.mark.parametrize("how", ["await context.produce", "context.produce"])
async def test_who_asks_learns_where_it_is_or_why_not(tmp_path: Path, how: str) -> None:
    is_async = how.startswith("await")
    handler = f"""
        {"async " if is_async else ""}def handler(context, event):
            try:
                found = {how}("out", event.body){"" if is_async else ".result()"}
                write(f"{{event.offset}} at {{found.partition}} {{found.offset}}")
            except Exception as error:
                write(f"{{event.offset}} {{error}}")
    """
    async with producing(tmp_path, handler) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 2))
        await until(lambda: cluster.values == [b"0"])
        assert b.lines() == []
        cluster.confirm()
        await until(lambda: cluster.values == [b"1"])
        cluster.confirm(failure="no")
        await until(lambda: len(b.lines()) == 2)
        assert b.lines() == ["0 at 3 0", "1 no"]
        await until(lambda: partition.failed)
        assert partition.checkpoint.offset == 1, "whatever its handler makes of that"


async def test_a_handler_waits_where_much_is_not_confirmed(tmp_path: Path) -> None:
    handler = f"""
        def handler(context, event):
            for number in range(4):
                context.produce("out", b"x" * {PRODUCE_WINDOW_BYTES // 2 - 200})
                write(number)
    """
    async with producing(tmp_path, handler) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: len(cluster.sent) == 2 and b.lines() == ["0", "1"])
        cluster.confirm()
        await until(lambda: len(cluster.sent) == 2 and b.lines() == ["0", "1", "2", "3"])
        await until(lambda: not partition.lane.in_flight_count)
        cluster.confirm()
        assert partition.checkpoint.offset == 1


async def test_a_revoke_waits_for_what_is_on_its_way(tmp_path: Path) -> None:
    async with producing(tmp_path, SENDS) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: cluster.sent and not partition.lane.in_flight_count)
        revoke = asyncio.create_task(b.dispatcher.revoke([partition], 60))
        await asyncio.sleep(0.05)
        assert not revoke.done()
        cluster.confirm()
        await revoke
        assert partition.checkpoint.offset == 1


async def test_a_task_produces_for_the_record_that_it_works_for(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            async def work():
                while not exists("go"):
                    await asyncio.sleep(0.005)
                context.produce("out", event.body)
                await context.platform.explicit_ack(event)
            context.create_task(work(), event)
    """
    policy = replace(QUICK, ack_mode=AckMode.EXPLICIT_ONLY)
    async with producing(tmp_path, handler, policy) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.dispatcher.on_assigned([partition.key])
        b.feed(partition, records(0, 2))
        await until(lambda: len(partition.awaiting_ack) == 2)
        (tmp_path / "go").touch()
        await until(lambda: len(cluster.sent) == 2)
        cluster.confirm(b"1")
        assert partition.checkpoint.offset == 0
        cluster.confirm()
        await until(lambda: partition.checkpoint.offset == 2)


async def test_records_that_overlap_have_their_own_messages(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            await asyncio.sleep(0.01 * (3 - event.offset))
            context.produce("out", event.body)
    """
    policy = replace(QUICK, max_concurrency=4, ordering="none")
    async with producing(tmp_path, handler, policy) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 4))
        await until(lambda: len(cluster.sent) == 4 and not partition.lane.out_count)
        cluster.confirm(b"2")
        assert partition.checkpoint.acked == ((2, 3),)
        cluster.confirm()
        assert partition.checkpoint.offset == 4


@pytest.mark.parametrize("ordering", ["key", "none"])
@pytest.mark.parametrize("is_late", [False, True])
async def test_where_records_overtake_each_other_only_the_one_comes_again(
    tmp_path: Path, ordering: Literal["key", "none"], *, is_late: bool
) -> None:
    handler = """
        async def handler(context, event):
            write(f"start {event.offset} attempt {event.attempt}")
            context.produce("out", event.body)
            while event.offset == 3 and event.attempt == 1 and not exists("go"):
                await asyncio.sleep(0.001)
            if event.offset == 4 and event.attempt < 3:
                raise ValueError("another one, which waits meanwhile")
    """
    policy = replace(QUICK, ordering=ordering, max_concurrency=8)
    async with producing(tmp_path, handler, policy) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 6))
        await until(lambda: {*cluster.values} >= {b"%d" % n for n in range(6)})
        if is_late:
            (tmp_path / "go").touch()
            await until(lambda: partition.ledger.is_settled(3))
        cluster.confirm(b"3", failure="no such topic")
        (tmp_path / "go").touch()
        await until(lambda: "start 3 attempt 2" in b.lines() and "start 4 attempt 3" in b.lines())
        await until(lambda: not partition.lane.out_count)
        cluster.confirm()
        assert partition.checkpoint.offset == 6
        starts = Counter(b.lines())
        assert starts == dict.fromkeys(
            [f"start {n} attempt 1" for n in range(6)]
            + ["start 3 attempt 2", "start 4 attempt 2", "start 4 attempt 3"],
            1,
        )


async def test_nothing_is_handed_out_while_too_much_waits_for_a_commit(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            context.produce("out", bytes(600_000))
    """
    async with producing(tmp_path, handler, replace(QUICK, exactly_once=True)) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 200))
        held = partition.pending
        await until(lambda: held.outgoing_bytes > 16 << 20 and not partition.lane.in_flight_count)
        assert len(b.lines()) < 200
        while partition.ledger.committable < 200 or held:
            for _, done in held.outgoing([(0, partition.ledger.committable)]):
                done(DeliveryReport(0, 0))
            await asyncio.sleep(0)
        assert cluster.sent == []
        assert partition.checkpoint.offset == 200


async def test_threads_of_a_handler_produce_at_the_same_time(tmp_path: Path) -> None:
    handler = """
        import threading
        sys.setswitchinterval(1e-6)

        def handler(context, event):
            def produce(name):
                for number in range(200):
                    context.produce("out", b"%d" % number, key=name)

            threads = [threading.Thread(target=produce, args=[name]) for name in "abcd"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    """
    async with producing(tmp_path, handler) as (b, cluster):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: len(cluster.sent) == 800 and not partition.lane.in_flight_count)
        for name in (b"a", b"b", b"c", b"d"):
            values = [message.value for message, _ in cluster.sent if message.key == name]
            assert values == [b"%d" % number for number in range(200)]
        cluster.confirm()
        assert partition.checkpoint.offset == 1
        assert b.dispatcher.workers[0].restarts == 0
