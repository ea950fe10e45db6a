"""eventTimeout and resources.limits.memory, with real workers."""

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from worker_bench import QUICK, QUICK_RETRIES, Bench, bench, records, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy, Then
from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import problem
from headrace.runtime.workers.watchdog import resident_bytes

LIMIT_BYTES = 96 << 20


def timed(seconds: float, then: Then = "skip", attempts: int = 2) -> DeliveryPolicy:
    failure = replace(QUICK_RETRIES, max_attempts=attempts, then=then)
    return replace(QUICK, failure=failure, event_timeout_seconds=seconds)


def limited(then: Then = "skip", attempts: int = 2) -> DeliveryPolicy:
    failure = replace(QUICK_RETRIES, max_attempts=attempts, then=then)
    return replace(QUICK, failure=failure, memory_limit_bytes=LIMIT_BYTES)


def restarts(b: Bench) -> int:
    return b.dispatcher.workers[0].restarts


# ---- eventTimeout


@pytest.mark.usefixtures("patient_watchdog")
async def test_an_async_handler_past_its_time_is_cancelled_and_its_worker_lives(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            if event.offset == 1:
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    write("cancelled", "seen")
                    raise
    """
    async with bench(tmp_path, handler, policy=timed(0.5)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await b.settled(p, 50)
        assert b.lines("seen") == ["cancelled"] * 2
        assert b.lines() == ["0 1", "1 1", "1 2", *(f"{n} 1" for n in range(2, 50))]
        assert restarts(b) == 0


async def test_a_failure_by_time_says_so(tmp_path: Path) -> None:
    handler = "async def handler(context, event):\n    await asyncio.sleep(600)"
    async with bench(tmp_path, handler, policy=timed(0.1, "halt")) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert "after 2 attempts: it ran past eventTimeout" in problem(p)


HANGS = """
    import re

    def asks_for_the_price():
        {}

    def handler(context, event):
        asks_for_the_price()
"""


@pytest.mark.full_but("python")
@pytest.mark.parametrize("call", ["time.sleep(600)", "re.match('(a+)+b', 'a' * 64)"], ids=["python", "c"])
async def test_a_handler_that_is_killed_for_its_time_says_where_it_was(
    tmp_path: Path, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, HANGS.format(call), policy=timed(0.3, "halt")) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(lambda: p.lane.state is PartitionState.HALTED)
        (module,) = tmp_path.rglob("*.py")
        line = 1 + module.read_text().splitlines().index("    " + call)
        assert f"past eventTimeout (300ms), in asks_for_the_price, {module.name}:{line}" in problem(p)
    assert "in asks_for_the_price" in caplog.text
    assert "in handler" in caplog.text
    assert caplog.text.count("(most recent call first)") > 1, "at each attempt"
    assert "in _follow" not in caplog.text, "the link thread may run meanwhile"


async def test_a_worker_that_crashes_once_it_was_asked_costs_no_attempt(tmp_path: Path) -> None:
    """The question comes as its partitions leave: what follows of it is no fault of the record."""
    handler = """
        import signal

        def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            stacks = int(sys.argv[4])
            while event.offset == 1 and not exists("mended"):
                if os.fstat(stacks).st_size or exists("crash"):
                    os.kill(os.getpid(), signal.SIGSEGV)
                time.sleep(0.01)
    """
    async with bench(tmp_path, handler, policy=timed(600, attempts=9)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await until(lambda: b.lines() == ["0 1", "1 1"])
        b.dispatcher.workers[0].dump_stack()
        await until(lambda: b.lines() == ["0 1", "1 1", "1 1"])
        (tmp_path / "crash").touch()  # and one that was not asked is at fault
        await until(lambda: "1 2" in b.lines())
        (tmp_path / "mended").touch()
        await b.settled(p, 3)


@pytest.mark.full
async def test_asking_a_worker_whose_threads_are_busy_does_it_no_harm(tmp_path: Path) -> None:
    """The frames of another thread can end while they are read: a crash within seconds, when they were."""
    handler = """
        import threading

        def deep(n):
            return [*map(deep, [n - 1, n - 1])] if n else [eval("lambda: 0")()]

        def forever():
            while True:
                deep(6)

        def handler(context, event):
            write(event.attempt)
            threading.Thread(target=forever, daemon=True).start()
            wait_for("go")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(b.lines)
        for _ in range(2000):
            b.dispatcher.workers[0].dump_stack()
            await asyncio.sleep(0.0005)
        (tmp_path / "go").touch()
        await b.settled(p, 1)
        assert b.lines() == ["1"]
        assert restarts(b) == 0


async def test_a_handler_that_swallows_its_cancellation_and_goes_on_is_killed(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            while event.offset == 1:
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    write(time.monotonic(), "seen")
    """
    async with bench(tmp_path, handler, policy=timed(0.5, attempts=1)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await b.settled(p, 5)
        (cancelled,) = map(float, b.lines("seen"))
        assert time.monotonic() - cancelled > 0.9, "it had its second"
        assert b.lines() == [f"{n} 1" for n in range(5)]
        assert restarts(b) == 1


@pytest.mark.usefixtures("patient_watchdog")
@pytest.mark.parametrize(
    "swallowing",
    ["return", "await asyncio.sleep(0)", "raise ValueError('in place of it') from None", "yield 1"],
    ids=["returns", "awaits on", "raises another error", "is a generator"],
)
async def test_a_handler_that_swallows_its_cancellation_and_ends_has_failed(
    tmp_path: Path, swallowing: str
) -> None:
    handler = f"""
        async def handler(context, event):
            write(f"{{event.offset}} {{event.attempt}}")
            if event.offset == 1:
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    {swallowing}
    """
    async with bench(tmp_path, handler, policy=timed(0.5)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await b.settled(p, 5)
        assert b.lines() == ["0 1", "1 1", "1 2", "2 1", "3 1", "4 1"]
        assert restarts(b) == 0


async def test_an_async_handler_that_blocks_its_loop_is_killed(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            if event.offset == 1:
                wait_for("never")
    """
    async with bench(tmp_path, handler, policy=timed(0.5, attempts=1)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await b.settled(p, 5)
        assert b.lines() == [f"{n} 1" for n in range(5)]
        assert restarts(b) == 1


@pytest.mark.usefixtures("patient_watchdog")
async def test_an_async_handler_that_blocks_its_loop_past_its_time_has_failed(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            if event.offset == 1:
                time.sleep(1)
    """
    async with bench(tmp_path, handler, policy=timed(0.5)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await b.settled(p, 5)
        assert b.lines() == ["0 1", "1 1", "1 2", "2 1", "3 1", "4 1"]
        assert restarts(b) == 0


@pytest.mark.full_but("wait_for*")
@pytest.mark.parametrize(
    "blocking", ["wait_for('never')", "asyncio.get_event_loop().run_until_complete(asyncio.sleep(600))"]
)
async def test_a_sync_handler_past_its_time_is_killed(tmp_path: Path, blocking: str) -> None:
    handler = f"""
        def handler(context, event):
            write(f"{{event.offset}} {{event.attempt}}")
            if event.offset == 1:
                {blocking}
    """
    async with bench(tmp_path, handler, policy=timed(0.5)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await b.settled(p, 50)
        assert b.lines() == ["0 1", "1 1", "1 2", *(f"{n} 1" for n in range(2, 50))]
        assert restarts(b) == 2


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_each_record_of_a_run_has_its_own_time(tmp_path: Path, kind: str) -> None:
    handler = f"""
        {kind} handler(context, event):
            write(f"{{event.offset}} {{event.attempt}}")
            if event.offset >= 100:
                {"time.sleep" if kind == "def" else "await asyncio.sleep"}(0.4)
    """
    async with bench(tmp_path, handler, policy=timed(2)) as b:
        (p,) = b.assign(("t", 0), start=100)
        b.expect_quick_handlers()
        b.feed(p, records(100, 8))
        assert len(b.dispatcher.workers[0].in_flight.runs) == 1
        await b.settled(p, 108)
        assert b.lines() == [f"{n} 1" for n in range(100, 108)]
        assert restarts(b) == 0


@pytest.mark.usefixtures("patient_watchdog")
async def test_a_time_below_a_second_is_kept_from_record_to_record(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            try:
                await asyncio.sleep(600)
            finally:
                write(event.offset)
    """
    async with bench(tmp_path, handler, policy=timed(0.1, attempts=1)) as b:
        (p,) = b.assign(("t", 0))
        began = time.monotonic()
        b.feed(p, records(0, 12))
        await b.settled(p, 12)
        assert 1.2 <= time.monotonic() - began < 60, "0.1 s each, not _CANCEL_SECONDS"
        assert b.lines() == [str(n) for n in range(12)]
        assert restarts(b) == 0


async def test_a_processor_that_was_held_up_cancels_before_it_kills(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            try:
                write("in")
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                write("cancelled", "seen")
                raise
    """
    async with bench(tmp_path, handler, policy=timed(0.3, attempts=1)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(b.lines)
        time.sleep(1.6)  # noqa: ASYNC251  # on purpose: nothing runs here meanwhile
        await b.settled(p, 1)
        assert b.lines("seen") == ["cancelled"]
        assert restarts(b) == 0


async def test_other_workers_go_on_beside_one_that_runs_out_of_time(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
            if event.shard_id == 0:
                wait_for("never")
            time.sleep(0.002)
    """
    async with bench(tmp_path, handler, workers=2, policy=timed(1, "halt")) as b:
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 3))
        b.feed(good, records(0, 200))
        await b.settled(good, 200)
        await until(lambda: bad.lane.state is PartitionState.HALTED)
        assert [line for line in b.lines() if line.startswith("0 ")] == ["0 0", "0 0"]
        assert [line for line in b.lines() if line.startswith("1 ")] == [f"1 {n}" for n in range(200)]


async def test_records_behind_one_that_was_killed_by_time_are_at_their_first_attempt(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.shard_id == 0 and event.offset == 200 and event.attempt == 1:
                wait_for("never")
    """
    async with bench(tmp_path, handler, policy=timed(1)) as b:
        partitions = b.assign(*(("t", number) for number in range(3)))
        for p in partitions:
            b.feed(p, records(0, 250))
        for p in partitions:
            await b.settled(p, 250)
        expected = [f"{shard} {n} 1" for shard in range(3) for n in range(250)]
        assert sorted(b.lines()) == sorted([*expected, "0 200 2"])


async def test_without_limits_nothing_is_watched(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            time.sleep(0.3)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        assert b.dispatcher._watchdog._tasks == []


# ---- resources.limits.memory


GROWS = """
    kept = []
    def grow(mebibytes):
        kept.append(b"x" * (mebibytes << 20))
"""


async def test_a_handler_that_outgrows_its_memory_is_killed_and_its_record_has_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = (
        GROWS
        + """
    def handler(context, event):
        write(f"{event.offset} {event.attempt}")
        if event.offset == 1:
            grow(150)
            wait_for("never")
    """
    )
    async with bench(tmp_path, handler, policy=limited("halt")) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert b.lines() == ["0 1", "1 1", "1 2"]
        assert "more than resources.limits.memory (96 MiB)" in problem(p)
        assert restarts(b) == 2
        assert "next try in" not in caplog.text


@pytest.mark.full
async def test_what_a_handler_leaks_costs_at_most_one_attempt(tmp_path: Path) -> None:
    handler = (
        GROWS
        + """
    def handler(context, event):
        write(f"{event.offset} {event.attempt}")
        grow(8)
        time.sleep(0.03)
    """
    )
    async with bench(tmp_path, handler, policy=limited("halt", attempts=3)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 40))
        await b.settled(p, 40)
        assert restarts(b) >= 1
        assert [line for line in b.lines() if line.endswith(" 3")] == []


async def test_an_idle_worker_above_its_limit_is_replaced_and_nobody_is_blamed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = (
        GROWS
        + """
    tasks = []
    async def later():
        grow(150)
    async def handler(context, event):
        write(f"{event.offset} {event.attempt}")
        if event.offset == 2:
            tasks.append(asyncio.create_task(later()))
    """
    )
    async with bench(tmp_path, handler, policy=limited("halt", attempts=1)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        await until(lambda: restarts(b) == 1)
        b.feed(p, records(3, 3))
        await b.settled(p, 6)
        assert b.lines() == [f"{n} 1" for n in range(6)]
        lines = [r.getMessage() for r in caplog.records if "resources.limits.memory" in r.getMessage()]
        assert len(lines) == 1
        assert "worker 0 is replaced" in lines[0]


@pytest.mark.parametrize("pause", ["", "time.sleep(0.5)"], ids=["quickly", "slowly"])
async def test_a_handler_whose_import_is_above_the_limit_cannot_run(tmp_path: Path, pause: str) -> None:
    handler = f"{GROWS}\n    grow(150)\n    {pause}\n    def handler(context, event): ..."
    with pytest.raises(HandlerLoadError) as raised:
        async with bench(tmp_path, handler, workers=2, policy=limited()):
            pass
    assert "resources.limits.memory (96 MiB)" in str(raised.value)
    assert "loading" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.full
async def test_an_import_that_outgrows_the_limit_later_is_tried_again_ever_more_slowly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = (
        GROWS
        + """
    write(time.monotonic(), "imports")
    if exists("large"):
        grow(150)
    def handler(context, event):
        write(f"{event.offset} {event.attempt}")
    """
    )
    async with bench(tmp_path, handler, policy=limited()) as b:
        (p,) = b.assign(("t", 0))
        (tmp_path / "large").touch()
        pid = b.dispatcher.workers[0].pid
        assert pid is not None
        os.kill(pid, 9)
        await until(lambda: "next try in 0.8 s" in caplog.text)
        tries = [r.getMessage() for r in caplog.records if "next try in" in r.getMessage()]
        assert len(tries) == len(b.lines("imports"))
        assert all("resources.limits.memory" in line for line in tries[1:])
        b.feed(p, records(0, 3))
        (tmp_path / "large").unlink()
        await b.settled(p, 3)
        assert b.lines() == ["0 1", "1 1", "2 1"]


@pytest.mark.processes
async def test_a_process_that_is_gone_uses_no_memory() -> None:
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    assert resident_bytes(process.pid) == 0
    assert resident_bytes(os.getpid()) > 10 << 20
