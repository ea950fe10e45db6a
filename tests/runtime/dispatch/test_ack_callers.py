"""From where a handler's code may ack: calls, tasks, threads, callbacks, other triggers."""

import asyncio
from pathlib import Path

import pytest
from ack_bench import (
    DISABLE,
    ENABLE,
    OBEYS,
    ONLY,
    WRITES,
    ack,
    handled,
)
from worker_bench import bench, records, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint

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


_ACKS_ITSELF = """
async def handler(context, event):
    await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))
"""


@pytest.mark.full_but("enable-task", "enable-async", "explicitOnly-sync")
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
            assert (set(p.awaiting_ack), dict(p.failed)) == (set(), {})


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
        revoke = asyncio.create_task(b.dispatcher.revoke([p], 600))
        await until(lambda: "acked" in b.lines())
        with b.dispatcher.hurry(0, 0):
            await revoke
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


async def test_an_ack_leaves_the_record_of_another_group_alone(tmp_path: Path) -> None:
    router = AckRouter()
    async with (
        bench(tmp_path / "one", WRITES + _ACKS_ITSELF, static=True, policy=ONLY, router=router) as one,
        bench(tmp_path / "two", WRITES, static=True, policy=ONLY, router=router) as two,
    ):
        (p,), (q,) = one.assign(("t", 0)), two.assign(("t", 0))
        q.on_fetched(records(0, 20))  # and not handed out
        one.feed(p, records(0, 20))
        await one.settled(p, 20)
        assert await ack(one, 3, verb="explicit_ack_through") == ["True"]
        assert q.checkpoint == Checkpoint(0)
        two.dispatcher.submit(q.lane)
        two.dispatcher.dispatch()
        await handled(two, 20)
        assert await ack(two, 0, 1) == ["True"] * 2
        assert q.checkpoint == Checkpoint(2)


async def test_an_ack_that_crosses_a_revoke_does_not_go_to_another_group_instead(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    router = AckRouter()
    async with (
        bench(tmp_path / "one", WRITES, static=True, policy=ONLY, router=router) as one,
        bench(tmp_path / "two", WRITES, static=True, policy=ONLY, router=router) as two,
    ):
        (p,), (q,) = one.assign(("t", 0)), two.assign(("t", 0))
        two.feed(q, records(0, 1))
        one.feed(p, records(0, 1))
        await handled(one, 1)
        await one.dispatcher.revoke([p], 10)
        (tmp_path / "one" / "todo").write_text("explicit_ack t 0 0\n")
        one.wait_deaf(lambda: one.lines("done"))  # so its worker can't know what comes now
        assert one.lines("done") == ["True"]
        one.dispatcher.on_revoked(None)
        await until(lambda: "an ack of t/0 offset 0 is refused" in caplog.text)
        assert q.checkpoint == Checkpoint(0)
        asked = 1
        while one.lines("done")[-1] == "True":  # until the worker has heard of it
            asked += 1
            with (tmp_path / "one" / "todo").open("a") as todo:
                todo.write("explicit_ack t 0 0\n")
            await until(lambda: len(one.lines("done")) == asked)  # noqa: B023  # awaited here
        assert q.checkpoint == Checkpoint(0)


async def test_a_trigger_with_disable_acks_nothing_of_another_group_on_its_topic(tmp_path: Path) -> None:
    handler = (
        OBEYS
        + """
async def handler(context, event):
    write(await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event)))
"""
    )
    router = AckRouter()
    async with (
        bench(tmp_path / "one", WRITES, static=True, policy=ONLY, router=router) as one,
        bench(tmp_path / "two", handler, static=True, policy=DISABLE, router=router) as two,
    ):
        (p,), (q,) = one.assign(("t", 0)), two.assign(("t", 0))
        p.on_fetched(records(0, 3))  # and not handed out
        two.feed(q, records(0, 3))
        await two.settled(q, 3)
        assert p.checkpoint == Checkpoint(0)
        assert two.lines() == ["False"] * 3


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


FORKS = """
    import multiprocessing, nuclio_sdk

    def ack(context, qualified_offset):
        try:
            asyncio.run(context.platform.explicit_ack(qualified_offset))
            write("acked")
        except RuntimeError as error:
            write(error)

    def handler(context, event):
        qualified_offset = nuclio_sdk.QualifiedOffset.from_event(event)
        child = multiprocessing.get_context("fork").Process(target=ack, args=(context, qualified_offset))
        child.start()
        child.join()
        if event.offset == 1:
            asyncio.get_event_loop().run_until_complete(context.platform.explicit_ack(qualified_offset))
"""


async def test_an_ack_from_a_forked_process_says_that_it_cannot_count(tmp_path: Path) -> None:
    async with bench(tmp_path, FORKS, policy=ONLY, static=True, router=AckRouter()) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await until(lambda: p.ledger.is_open(0) and not p.ledger.is_open(1))
        assert p.checkpoint.acked == ((1, 2),)
    said = (
        "explicit_ack(t/0/{}): in a process that the handler has forked, which can't ack; ack in the worker"
    )
    assert b.lines() == [said.format(0), said.format(1)]
