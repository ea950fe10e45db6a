"""Explicit acks, from real workers, without a broker: contract, section 5."""

import asyncio
import logging
import textwrap
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from worker_bench import QUICK_RETRIES, Bench, bench, records, until

from headrace.runtime.config.delivery import AckMode, BatchPolicy, DeliveryPolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.feed import NoFeed
from headrace.runtime.dispatch.reports import Warnings
from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partitions.assigned import AssignedPartition, PartitionState
from headrace.runtime.partitions.checkpoint import Checkpoint

DISABLE = DeliveryPolicy(failure=QUICK_RETRIES)
ENABLE = DeliveryPolicy(AckMode.ENABLE, failure=QUICK_RETRIES)
ONLY = DeliveryPolicy(AckMode.EXPLICIT_ONLY, failure=QUICK_RETRIES)
CUMULATIVE = replace(ONLY, is_cumulative=True)
BATCHES = replace(ENABLE, batch=BatchPolicy(10, 0.01))

# Worker 0 acks in the background what the test writes into the file `todo`.
OBEYS = """
import nuclio
def todo():
    return (FOLDER / "todo").read_text().splitlines() if exists("todo") else []

async def obey(context):
    done = 0
    while True:
        for line in todo()[done:]:
            verb, topic, partition, offset = line.split()
            ack = getattr(context.platform, verb)
            write(await ack(nuclio.QualifiedOffset(topic, int(partition), int(offset))), "done")
            done += 1
        await asyncio.sleep(0.002)

async def init_context(context):
    if context.worker_id == "0":
        context.user_data.obeying = asyncio.create_task(obey(context))
"""
WRITES = (
    OBEYS
    + """
async def handler(context, event):
    write(f"{event.shard_id} {event.offset}")
"""
)
# A sync handler holds the loop: here a thread acks while it runs.
OBEYS_IN_A_THREAD = OBEYS.replace("async def init_context", "async def unused") + textwrap.dedent("""
    import threading
    def init_context(context):
        if context.worker_id == "0":
            threading.Thread(target=lambda: asyncio.run(obey(context)), daemon=True).start()
    def handler(context, event):
        write(f"{event.shard_id} {event.offset}")
        if event.body == b"wait":
            wait_for("go")
    """)


async def ack(
    b: Bench, *offsets: int, partition: int = 0, topic: str = "t", verb: str = "explicit_ack"
) -> list[str]:
    """Have worker 0 ack, and the processor read it; what the calls returned."""
    before = len(b.lines("done"))
    with (b.folder / "todo").open("a") as todo:
        todo.write("".join(f"{verb} {topic} {partition} {offset}\n" for offset in offsets))
    await until(lambda: len(b.lines("done")) == before + len(offsets))
    b.dispatcher.sync_progress()
    return b.lines("done")[before:]


async def handled(b: Bench, count: int) -> None:
    """Wait until handlers have begun `count` times and nothing is in flight."""

    def is_so() -> bool:
        b.dispatcher.sync_progress()
        return len(b.lines()) >= count and not any(
            p.in_flight_count for p in b.dispatcher.partitions.values()
        )

    await until(is_so)


@dataclass
class Ends(NoFeed):
    """A source whose partitions all end at `end`."""

    end: int

    def end_of(self, partition: AssignedPartition) -> int:
        return self.end


# ---- which modes


async def test_with_disable_an_explicit_ack_raises_and_names_the_mode(tmp_path: Path) -> None:
    handler = """
        import nuclio
        async def handler(context, event):
            try:
                await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))
            except RuntimeError as error:
                write(error)
    """
    async with bench(tmp_path, handler, policy=DISABLE) as b:
        (p,) = b.assign(("t", 3))
        b.feed(p, records(0, 1))
        await b.settled(p, 1)
        (line,) = b.lines()
        assert line.startswith("explicit_ack(t/3/0): explicitAckMode is disable")


async def test_with_enable_returning_acks(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ENABLE) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await b.settled(p, 50)


@pytest.mark.parametrize(
    ("kind", "says_no_ack"),
    [
        ("def", "response.ensure_no_ack()"),
        ("async def", "response.ensure_no_ack()"),
        ("async def", "response.headers['X-Nuclio-Stream-No-Ack'] = True"),
        ("def", "response.headers['X-NUCLIO-STREAM-NO-ACK'] = 'true'"),
    ],
)
async def test_with_enable_a_response_may_leave_its_record_to_a_later_ack(
    tmp_path: Path, kind: str, says_no_ack: str
) -> None:
    handler = f"""
{kind} handler(context, event):
    write(event.offset)
    response = nuclio.Response()
    if event.offset in (3, 7):
        {says_no_ack}
    elif event.offset == 4:
        response.headers["x-nuclio-stream-no-ack"] = "false"
    return response
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=ENABLE) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await handled(b, 10)
        assert p.checkpoint == Checkpoint(3, acked=((4, 7), (8, 10)))
        assert p.unacked == {3, 7}
        assert await ack(b, 7) == ["True"]
        assert p.checkpoint == Checkpoint(3, acked=((4, 10),))
        assert await ack(b, 3) == ["True"]
        assert p.checkpoint == Checkpoint(10)
        assert p.unacked == set()


async def test_with_explicit_only_returning_never_acks(tmp_path: Path) -> None:
    handler = """
def handler(context, event):
    write(event.offset)
    return [None, nuclio.Response(), "acked", (200, "acked")][event.offset % 4]
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 40))
        await handled(b, 40)
        assert p.checkpoint == Checkpoint(0)
        assert p.unsettled == len(p.unacked) == 40
        await ack(b, *range(40))
        assert p.checkpoint == Checkpoint(40)


# ---- from where

SYNC = """
    import asyncio
    import nuclio

    def handler(context, event):
      qualified_offset = nuclio.QualifiedOffset.from_event(event)
      loop = asyncio.get_event_loop()
      loop.run_until_complete(context.platform.explicit_ack(qualified_offset))
      return "acked"
"""
ASYNC = """
    import nuclio_sdk
    async def handler(context, event):
        assert await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event)) is True
        assert await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event)) is True
"""
TASK = """
    import nuclio, random
    tasks = set()
    async def later(context, event):
        await asyncio.sleep(random.random() / 20)
        await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))
    async def handler(context, event):
        tasks.add(asyncio.create_task(later(context, event)))
"""
THREADS = """
    import nuclio, random, threading
    def later(context, event):
        time.sleep(random.random() / 100)
        asyncio.run(context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event)))
    def handler(context, event):
        threading.Thread(target=later, args=(context, event)).start()
"""


@pytest.mark.parametrize("handler", [SYNC, ASYNC, TASK, THREADS], ids=["sync", "async", "task", "threads"])
@pytest.mark.parametrize("policy", [ENABLE, ONLY], ids=["enable", "explicitOnly"])
async def test_acks_come_from_sync_and_async_handlers_tasks_and_threads(
    tmp_path: Path, handler: str, policy: DeliveryPolicy
) -> None:
    async with bench(tmp_path, handler, workers=2, static=True, policy=policy) as b:
        partitions = b.assign(("t", 0), ("t", 1), ("u", 0))
        for p in partitions:
            b.feed(p, records(0, 100))
        for p in partitions:
            await b.settled(p, 100)
            assert (p.unacked, dict(p.failed_records)) == (set(), {})


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_acks_made_in_a_drain_callback_count_and_end_the_wait_for_them(
    tmp_path: Path, kind: str
) -> None:
    handler = f"""
        import nuclio
        held = []
        {kind} handler(context, event):
            write(event.offset)
            held.append(nuclio.QualifiedOffset.from_event(event))
        async def ack_all(context):
            for qualified_offset in held:
                assert await context.platform.explicit_ack(qualified_offset)
        def init_context(context):
            context.platform.on_signal(lambda: ack_all(context))
    """
    async with bench(tmp_path, handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 20))
        await handled(b, 20)
        async with asyncio.timeout(120):
            await b.dispatcher.revoke([p], 60, 600)
        assert p.checkpoint == Checkpoint(20)


@pytest.mark.parametrize(
    "starts", ["async def drain(context): await", "def drain(context): asyncio.create_task"]
)
async def test_an_ack_made_while_draining_counts_for_a_handler_that_is_killed_then(
    tmp_path: Path, starts: str
) -> None:
    handler = f"""
        import nuclio
        running = []
        def handler(context, event):
            running.append(nuclio.QualifiedOffset.from_event(event))
            write(event.offset)
            wait_for("never")
        async def ack(context):
            await context.platform.explicit_ack(running[-1])
            write("acked")
        {starts}(ack(context))
        def init_context(context):
            context.platform.set_drain_callback(lambda: drain(context))
    """
    async with bench(tmp_path, handler, static=True, policy=ENABLE) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await until(b.lines)
        await b.dispatcher.revoke([p], 1)
        assert b.lines() == ["0", "acked"]
        assert p.checkpoint == Checkpoint(1)


async def test_without_late_acks_the_wait_for_them_ends_by_its_time(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await handled(b, 5)
        await ack(b, 2)
        await b.dispatcher.revoke([p], 60, 0.05)
        assert p.checkpoint == Checkpoint(0, acked=((2, 3),))


async def test_any_worker_of_any_trigger_acks_for_any_trigger_of_the_function(tmp_path: Path) -> None:
    router = AckRouter()
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with (
        bench(tmp_path / "one", WRITES, static=True, policy=ONLY, router=router) as one,
        bench(tmp_path / "two", WRITES, static=True, policy=DISABLE, router=router) as two,
    ):
        (p,) = one.assign(("t", 0))
        (q,) = two.assign(("u", 0))
        one.feed(p, records(0, 3))
        await handled(one, 3)
        two.feed(q, records(0, 2))
        await two.settled(q, 2)  # so its worker has heard what the replica owns, too
        assert await ack(two, 1, 0, 2) == ["True"] * 3
        assert p.checkpoint == Checkpoint(3)


async def test_a_trigger_with_disable_says_so_even_where_another_one_takes_acks(tmp_path: Path) -> None:
    router = AckRouter()
    handler = """
        import nuclio
        async def handler(context, event):
            try:
                write(await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event)))
            except RuntimeError as error:
                write(error)
    """
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with (
        bench(tmp_path / "one", WRITES, static=True, policy=ONLY, router=router),
        bench(tmp_path / "two", handler, static=True, policy=DISABLE, router=router) as two,
    ):
        (q,) = two.assign(("u", 0))
        two.feed(q, records(0, 1))
        await two.settled(q, 1)
        assert two.lines()[0].startswith("explicit_ack(u/0/0): explicitAckMode is disable")


# ---- what an ack frees


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
            assert {o for o in range(12) if p.ledger.is_open(o)} == p.unacked == is_open
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
        assert p.unacked == {9, 11}


async def test_with_cumulative_each_ack_frees_all_up_to_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=CUMULATIVE) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 12))
        await handled(b, 12)
        await ack(b, 10)
        assert p.checkpoint == Checkpoint(11)
        await ack(b, 5)
        assert p.checkpoint == Checkpoint(11)


# ---- records that were acked before they were handled


async def test_a_record_that_waits_in_the_worker_is_not_handled_once_it_is_acked(tmp_path: Path) -> None:
    handler = """
        import nuclio
        async def handler(context, event):
            write(event.offset)
            await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))
            if event.offset == 300:
                for offset in (302, 305, 300, 299):
                    await context.platform.explicit_ack(nuclio.QualifiedOffset("t", 0, offset))
            if event.offset == 310:
                await context.platform.explicit_ack_through(nuclio.QualifiedOffset("t", 0, 315))
    """
    async with bench(tmp_path, handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 300))
        await b.settled(p, 300)
        b.feed(p, records(300, 20))
        await b.settled(p, 320)
        skipped = {302, 305, 311, 312, 313, 314, 315}
        assert b.lines() == [str(offset) for offset in range(320) if offset not in skipped]


async def test_a_record_that_waits_in_one_worker_is_not_handled_once_another_has_acked_it(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, OBEYS_IN_A_THREAD, workers=2, static=True, policy=ENABLE) as b:
        _, p = b.assign(("t", 0), ("t", 1))
        b.feed(p, records(0, 300))
        await b.settled(p, 300)
        waiting = records(300, 6)
        waiting[0].value = b"wait"
        b.feed(p, waiting)
        await until(lambda: "1 300" in b.lines())
        assert p.in_flight_count == 6
        assert await ack(b, 302, 304, partition=1) == ["True"] * 2
        await until(lambda: p.in_flight_count == 1)  # the others have come back
        (tmp_path / "go").touch()
        await b.settled(p, 306)
        assert b.lines() == [f"1 {offset}" for offset in range(306) if offset not in (302, 304)]


async def test_a_failed_record_that_waits_in_the_worker_again_is_not_handled_once_it_is_acked(
    tmp_path: Path,
) -> None:
    handler = OBEYS_IN_A_THREAD.replace(
        "    if event.body", "    assert event.body != b'no'\n    if event.body"
    )
    async with bench(tmp_path, handler, static=True, policy=ENABLE) as b:
        p, busy = b.assign(("t", 0), ("t", 1))
        b.feed(busy, records(0, 300))
        await b.settled(busy, 300)
        failing, waiting = records(0, 3), records(300, 1)
        failing[1].value, waiting[0].value = b"no", b"wait"
        b.feed(p, failing)
        await until(lambda: p.state is PartitionState.BACKOFF)
        b.feed(busy, waiting)
        await until(lambda: p.in_flight_count == 1)
        assert await ack(b, 1) == ["True"]
        await until(lambda: not p.is_recalled)  # it has come back
        (tmp_path / "go").touch()
        await b.settled(p, 3)
        assert [line for line in b.lines() if line.startswith("0 ")] == ["0 0", "0 1", "0 2"]


async def test_records_acked_before_they_are_fetched_are_not_delivered(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ENABLE) as b:
        b.dispatcher.feed = Ends(20)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await b.settled(p, 5)
        assert await ack(b, 19, 7, 5) == ["True"] * 3
        assert p.checkpoint == Checkpoint(6, acked=((7, 8), (19, 20)))
        b.feed(p, records(5, 15))
        await b.settled(p, 20)
        assert b.lines() == [f"0 {offset}" for offset in range(20) if offset not in (5, 7, 19)]


async def test_records_acked_while_they_wait_in_the_processor_are_not_delivered(tmp_path: Path) -> None:
    async with bench(tmp_path, OBEYS_IN_A_THREAD, static=True, policy=ENABLE) as b:
        (p,) = b.assign(("t", 0))
        batch = records(0, 200)
        batch[0].value = b"wait"
        b.feed(p, batch)
        await until(b.lines)
        assert p.waiting
        await ack(b, 150, 151, 199)
        (tmp_path / "go").touch()
        await b.settled(p, 200)
        assert b.lines() == [f"0 {offset}" for offset in range(200) if offset not in (150, 151, 199)]


# ---- failures and deaths


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
        assert p.state is PartitionState.ACTIVE
        assert not p.failed_records


async def test_an_ack_of_the_record_that_halts_a_partition_lets_it_go_on(tmp_path: Path) -> None:
    handler = """
async def handler(context, event):
    write(event.offset)
    assert event.offset != 5
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=ENABLE) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.state is PartitionState.HALTED)
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
        await until(lambda: p.state is PartitionState.HALTED)
        assert await ack(b, 0, 1) == ["True"] * 2
        assert p.state is PartitionState.HALTED
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
        pid = b.dispatcher.workers[0].pid
        b.dispatcher.workers[0].kill()
        await until(lambda: b.dispatcher.workers[0].pid != pid and b.dispatcher.workers[0].is_ready)
        b.feed(p, records(6, 1))
        await handled(b, 7)
        assert b.lines() == [f"0 {offset}" for offset in range(7)]
        for again in (1, 2):
            await b.dispatcher.revoke([p], 10)
            p = AssignedPartition("t", 0, p.checkpoint, 256)
            b.dispatcher.assign([p])
            b.feed(p, records(1, 6))
            await handled(b, 7 + 5 * again)
            assert b.lines()[-5:] == [f"0 {offset}" for offset in (1, 2, 4, 5, 6)]


# ---- what this replica does not own, or what does not exist


async def test_an_ack_elsewhere_is_false_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        assert await ack(b, 0) == ["False"]
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await handled(b, 2)
        assert await ack(b, 0, partition=1) == ["False"]
        assert await ack(b, 0, topic="u") == ["False"]
        assert await ack(b, 1) == ["True"]
        await b.dispatcher.revoke([p], 10)
        b.dispatcher.disown()
        pid = b.dispatcher.workers[0].pid
        await until(lambda: answers_false(b))
        assert p.checkpoint == Checkpoint(0, acked=((1, 2),))
        assert pid == b.dispatcher.workers[0].pid
    assert "error" not in {record.levelname.lower() for record in caplog.records}


def answers_false(b: Bench) -> bool:
    """Whether the last ack that was asked for got that answer; if not, ask again."""
    asked = len((b.folder / "todo").read_text().splitlines())
    if len(b.lines("done")) < asked:
        return False
    if b.lines("done")[-1] == "False" and asked > 4:
        return True
    with (b.folder / "todo").open("a") as todo:
        todo.write("explicit_ack t 0 0\n")
    return False


async def test_an_ack_that_crosses_a_revoke_is_refused_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        import nuclio, threading
        def later(context, event):
            wait_for("ack")
            write(asyncio.run(context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))))
        def handler(context, event):
            threading.Thread(target=later, args=(context, event)).start()
    """
    async with bench(tmp_path, handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(lambda: p.unacked)
        await b.dispatcher.revoke([p], 10)
        (tmp_path / "ack").touch()
        while not b.lines():  # the loop does not turn: the worker can't know yet, nor the processor
            pass
        assert b.lines() == ["True"]
        b.dispatcher.disown()
        await until(lambda: "an ack of t/0 offset 0 is refused" in caplog.text)
        assert p.checkpoint == Checkpoint(0)


@pytest.mark.parametrize("verb", ["explicit_ack", "explicit_ack_through"])
@pytest.mark.parametrize("policy", [ENABLE, ONLY], ids=["enable", "explicitOnly"])
async def test_an_ack_beyond_the_end_is_refused_and_costs_no_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, verb: str, policy: DeliveryPolicy
) -> None:
    handler = f"""
        import nuclio
        async def handler(context, event):
            write(event.offset)
            if event.offset == 300:
                assert await context.platform.{verb}(nuclio.QualifiedOffset("t", 0, 325))
    """
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 300))
        await handled(b, 300)
        b.feed(p, records(300, 20))
        await handled(b, 320)
        assert "an ack of t/0 offset 325 is refused: the partition ends at 320" in caplog.text
        assert p.ledger.committable == (320 if policy is ENABLE else 0)
        b.feed(p, records(320, 10))
        await handled(b, 330)
        assert b.lines() == [str(offset) for offset in range(330)]
        assert p.checkpoint.acked == ()


async def test_an_offset_that_cannot_be_is_refused_and_raises_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await handled(b, 2)
        assert await ack(b, -1, 2**70, -(2**70)) == ["True"] * 3
        assert caplog.text.count("is refused: the partition ends at 2") == 3
        assert p.checkpoint == Checkpoint(0)


# ---- between the assignment and its start


async def test_acks_made_before_the_start_is_known_wait_for_it(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ENABLE) as b:
        b.dispatcher.feed = Ends(10)
        b.dispatcher.own([("t", 0), ("t", 1)])
        await until(lambda: asks_until_true(b))
        await ack(b, 5, 1, 9)
        p, q = (AssignedPartition("t", number, Checkpoint(3), 256) for number in (0, 1))
        b.dispatcher.assign([p, q])
        assert p.checkpoint == Checkpoint(3, acked=((5, 6), (9, 10)))
        b.feed(p, records(3, 7))
        await b.settled(p, 10)
        assert b.lines() == ["0 3", "0 4", "0 6", "0 7", "0 8"]


def asks_until_true(b: Bench) -> bool:
    """Ack offset 1 of t/1 until the worker has heard that it is owned."""
    path = b.folder / "todo"
    asked = len(path.read_text().splitlines()) if path.exists() else 0
    done = b.lines("done")
    if len(done) < asked:
        return False
    if done and done[-1] == "True":
        return True
    with path.open("a") as todo:
        todo.write("explicit_ack t 1 1\n")
    return False


async def test_acks_that_waited_in_vain_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ENABLE) as b:
        b.dispatcher.own([("t", 0), ("t", 1)])
        await until(lambda: asks_until_true(b))
        await ack(b, 5)
        b.dispatcher.disown()
        assert "an ack of t/0 offset 5 is refused" in caplog.text


# ---- batches


async def test_a_batch_may_leave_some_of_its_records_to_later_acks(tmp_path: Path) -> None:
    handler = """
async def handler(context, events):
    responses = []
    for event in events:
        write(event.offset)
        responses.append(nuclio.Response(event_id=event.id))
        if event.offset % 2:
            responses[-1].ensure_no_ack()
    return responses
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=BATCHES) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await handled(b, 10)
        await until(lambda: p.unacked == {1, 3, 5, 7, 9})
        await ack(b, 1, 9)
        assert p.checkpoint.offset == 3
        assert p.unacked == {3, 5, 7}


async def test_a_batch_whose_records_are_all_acked_before_it_starts_holds_up_nothing(tmp_path: Path) -> None:
    class Slow(Ends):
        def __init__(self) -> None:
            super().__init__(100)
            self.asked = asyncio.Event()
            self.safe = asyncio.Event()

        async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
            self.asked.set()
            await self.safe.wait()
            return True

    handler = """
async def handler(context, events):
    for event in events:
        write(event.offset)
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=BATCHES) as b:
        b.dispatcher.feed = source = Slow()
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 15))
        await source.asked.wait()
        while await ack(b, 0) != ["True"]:  # the worker hears that the partition is its own
            pass
        await ack(b, *range(1, 10))
        source.safe.set()
        await b.settled(p, 15)
        assert b.lines() == [str(offset) for offset in range(10, 15)]


# ---- what people are told


async def test_a_partition_full_of_unacked_records_names_the_setting_that_helps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        p, q, r = (AssignedPartition("t", number, Checkpoint(0), 8) for number in range(3))
        b.dispatcher.assign([p, q, r])
        for partition, count in ((p, 8), (q, 12), (r, 7)):
            b.feed(partition, records(0, count))
        await handled(b, 27)
        await ack(b, 8, 9, 10, 11, partition=1)
        warnings = Warnings(b.dispatcher, metrics_of(b), 300)
        with caplog.at_level(logging.WARNING):
            warnings.look()
            warnings.look()
        told = [record.getMessage() for record in caplog.records if "unacked" in record.getMessage()]
        assert len(told) == 2
        assert "t/0 holds 8 unacked records, the first at offset 0" in told[0]
        assert "maxInFlight" in told[0]
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
    return b.dispatcher._metrics


# ---- many at once


async def test_many_threads_acking_in_random_order_lose_and_repeat_nothing(tmp_path: Path) -> None:
    handler = """
        import nuclio, queue, random, threading
        waiting = queue.Queue()
        def work(context, number):
            held, rng = [], random.Random(number)
            while True:
                is_last = False  # so far
                try:
                    held.append(waiting.get(timeout=0.05))
                except queue.Empty:
                    is_last = True
                rng.shuffle(held)
                while held and (is_last or rng.random() < 0.7):
                    asyncio.run(context.platform.explicit_ack(held.pop()))
        def init_context(context):
            for number in range(6):
                threading.Thread(target=work, args=(context, number), daemon=True).start()
        def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
            waiting.put(nuclio.QualifiedOffset.from_event(event))
    """
    async with bench(tmp_path, handler, workers=2, static=True, policy=ONLY) as b:
        partitions = b.assign(*(("t", number) for number in range(5)))
        for p in partitions:
            b.feed(p, records(0, 250))
        for p in partitions:
            await b.settled(p, 250)
        assert sorted(b.lines()) == sorted(f"{n} {offset}" for n in range(5) for offset in range(250))
