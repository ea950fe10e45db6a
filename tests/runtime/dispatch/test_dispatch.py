"""The dispatcher with real workers: order, failures, deaths, recall."""

import asyncio
import os
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest
from worker_bench import Bench, bench, records, until

from headrace.runtime.dispatch.reports import worker_statuses
from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.partitions.assigned import AssignedPartition, PartitionState

WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {event.attempt}")
"""


async def test_records_of_a_partition_run_in_order_and_settle(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, workers=2) as b:
        (p,) = b.assign(("t", 0), start=7)
        b.feed(p, records(7, 500))
        await b.settled(p, 507)
        assert b.lines() == [f"t 0 {offset} 1" for offset in range(7, 507)]


async def test_an_async_handler_runs_in_order_and_its_background_tasks_go_on(tmp_path: Path) -> None:
    handler = """
        tasks = []
        async def later(offset):
            await asyncio.sleep(0)
            write(offset, "background")
        async def handler(context, event):
            tasks.append(asyncio.create_task(later(event.offset)))
            write(event.offset)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await b.settled(p, 50)
        assert b.lines() == [str(offset) for offset in range(50)]
        await until(lambda: len(b.lines("background")) == 50)


async def test_a_sync_handler_may_run_the_event_loop_itself(tmp_path: Path) -> None:
    handler = """
        async def answer():
            return 42
        def handler(context, event):
            loop = asyncio.get_event_loop()
            write(loop.run_until_complete(answer()))
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        assert b.lines() == ["42", "42"]


async def test_a_failed_record_is_tried_again_before_any_later_one(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            if event.offset == 20 and event.attempt < 3:
                raise ValueError("not yet")
    """
    async with bench(tmp_path, handler, workers=2) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 60))
        await b.settled(p, 60)
        tries = [f"{offset} 1" for offset in range(21)] + ["20 2", "20 3"]
        assert b.lines() == tries + [f"{offset} 1" for offset in range(21, 60)]


@pytest.mark.parametrize(
    "failing",
    [
        "raise ValueError(event.offset)",
        "return context.Response(status_code=503, body='away')",
        "return (500, 'no')",
        "sys.exit(1)",
        "os._exit(1)",
        "os.kill(os.getpid(), signal.SIGSEGV)",
    ],
)
async def test_a_record_that_always_fails_halts_its_partition_and_no_other(
    tmp_path: Path, failing: str
) -> None:
    handler = f"""
        def handler(context, event):
            if event.shard_id == 0 and event.offset == 5:
                {failing}
            write(f"{{event.shard_id}} {{event.offset}}")
    """
    async with bench(tmp_path, handler, workers=2) as b:
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 10))
        b.feed(good, records(0, 10))
        await until(lambda: bad.state is PartitionState.HALTED)
        await b.settled(good, 10)
        assert bad.ledger.committable == 5
        assert [line for line in b.lines() if line.startswith("0 ")] == [f"0 {n}" for n in range(5)]


async def test_a_killed_worker_repeats_only_the_record_that_it_was_in(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            if event.offset == 30 and event.attempt == 1:
                write("here", "reached")
                wait_for("never")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 60))
        await until(lambda: b.lines("reached"))
        pid = b.dispatcher.workers[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await b.settled(p, 60)
        assert b.lines() == [str(offset) for offset in [*range(31), *range(30, 60)]]
        assert b.dispatcher.workers[0].restarts == 1


async def test_runs_behind_a_slow_record_move_to_a_worker_that_idles(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            if event.shard_id == 0 and event.offset == 99:
                wait_for("go")
            write(f"{event.shard_id} {event.offset} {context.worker_id}")
    """
    async with bench(tmp_path, handler, workers=2) as b:
        slow, *quick = b.assign(*(("t", number) for number in range(6)))
        for p in (slow, *quick):
            b.feed(p, records(0, 99))
        for p in (slow, *quick):
            await b.settled(p, 99)
        for p in (slow, *quick):
            b.dispatcher.add(p, records(99, 50))
        b.dispatcher.dispatch()
        for p in quick:
            await b.settled(p, 149)
        assert slow.ledger.committable == 99
        (tmp_path / "go").touch()
        await b.settled(slow, 149)
        for number in range(6):
            offsets = [int(line.split()[1]) for line in b.lines() if line.startswith(f"{number} ")]
            assert offsets == list(range(149))


def only_one_is_left(b: Bench, p: AssignedPartition) -> bool:
    b.dispatcher.sync_progress()
    return p.in_flight_count == 1


async def test_revoked_partitions_finish_what_has_started_and_nothing_else(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            if event.offset == 3:
                wait_for("go")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await until(lambda: "3" in b.lines())
        revoke = asyncio.create_task(b.dispatcher.revoke([p], 20))
        await until(lambda: only_one_is_left(b, p))
        (tmp_path / "go").touch()
        await revoke
        assert b.lines() == ["0", "1", "2", "3"]
        assert p.ledger.committable == 4
        assert b.dispatcher.workers[0].restarts == 0


async def test_a_handler_that_outlasts_the_wait_is_killed_with_what_it_started(tmp_path: Path) -> None:
    handler = """
        import subprocess
        def handler(context, event):
            child = subprocess.Popen(["sleep", "600"])
            write(child.pid)
            wait_for("never")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 5))
        await until(b.lines)
        await b.dispatcher.revoke([p], 0.2)
        assert p.ledger.committable == 0
        child = Path(f"/proc/{b.lines()[0]}")
        await until(lambda: not child.exists() or "Z (" in (child / "status").read_text())
        (q,) = b.assign(("t", 1))
        (tmp_path / "never").touch()
        b.feed(q, records(0, 5))
        await b.settled(q, 5)


async def test_returns_from_an_older_assignment_move_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES) as b:
        (old,) = b.assign(("t", 0))
        b.feed(old, records(0, 10))
        await b.dispatcher.revoke([old], 20)
        done = old.ledger.committable
        (new,) = b.assign(("t", 0), start=done)
        b.feed(new, records(done, 20))
        await b.settled(new, done + 20)
        assert len(b.lines()) == done + 20


async def test_static_workers_keep_their_partitions(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {context.worker_id}")
    """
    async with bench(tmp_path, handler, workers=5, static=True) as b:
        partitions = b.assign(*(("t", number) for number in range(20)))
        for p in partitions:
            b.dispatcher.add(p, records(0, 20))
        b.dispatcher.dispatch()
        for p in partitions:
            await b.settled(p, 20)
        assert set(b.lines()) == {f"{number} {number // 4}" for number in range(20)}
        assert [w["partitions"] for w in worker_statuses(b.dispatcher)] == [
            "t/0-3",
            "t/4-7",
            "t/8-11",
            "t/12-15",
            "t/16-19",
        ]


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("1 / 0", "ZeroDivisionError"),
        (
            "def other(context, event): ...",
            "has no function 'handler'; it has write, exists, wait_for, other",
        ),
        ("def init_context(context): raise OSError('no database')\ndef handler(c, e): ...", "no database"),
        ("os._exit(3)", "exit code 3"),
    ],
)
async def test_a_handler_that_cannot_be_loaded_says_why(tmp_path: Path, handler: str, expected: str) -> None:
    with pytest.raises(HandlerLoadError, match=expected):
        async with bench(tmp_path, handler):
            pass


async def test_prints_and_log_lines_name_their_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def handler(context, event):
            print("printed")
            context.logger.info_with("logged", answer=42)
    """
    with caplog.at_level("INFO"):
        async with bench(tmp_path, handler) as b:
            (p,) = b.assign(("t", 3))
            b.feed(p, records(0, 1))
            await b.settled(p, 1)
    lines = {record.getMessage(): getattr(record, "bound", None) for record in caplog.records}
    where = {"worker": 0, "partition": "t/3", "offset": 0}
    assert lines["printed"] == where
    assert lines["logged"] == {**where, "answer": 42}


async def test_a_recall_that_meets_the_start_of_its_run_keeps_order_and_loses_nothing(
    tmp_path: Path,
) -> None:
    handler = """
        def handler(context, event):
            until = time.perf_counter() + 0.0001
            while event.offset < 300 and time.perf_counter() < until:
                pass
            write(f"{event.shard_id} {event.offset}")
            if event.offset == 300:
                if event.shard_id < 2:
                    wait_for(f"go{event.shard_id}")
                else:
                    time.sleep(0.05)
    """
    async with bench(tmp_path, handler, workers=2) as b:
        first, second, behind = partitions = b.assign(("t", 0), ("t", 1), ("t", 2))
        for p in partitions:
            b.feed(p, records(0, 300))
        for p in partitions:
            await b.settled(p, 300)
        b.feed(first, records(300, 1))
        b.feed(second, records(300, 1))
        await until(lambda: {"0 300", "1 300"} <= set(b.lines()))
        b.feed(behind, records(300, 400))
        assert behind.worker_index is not None
        worker = b.dispatcher.workers[behind.worker_index]
        recall = worker.recall

        def recall_once_the_slow_record_has_ended(p: AssignedPartition) -> None:
            (tmp_path / f"go{int(second.worker_index == worker.index)}").touch()
            while not any(line.startswith("2 300") for line in b.lines()):
                pass  # the decision is made; the worker goes on before it reads it
            recall(p)

        worker.recall = recall_once_the_slow_record_has_ended  # type: ignore[method-assign, assignment]
        (tmp_path / f"go{int(first.worker_index == worker.index)}").touch()
        await b.settled(behind, 700)
        offsets = [int(line.split()[1]) for line in b.lines() if line.startswith("2 ")]
        assert offsets == list(range(700))


@pytest.mark.parametrize(
    "handler",
    [
        """
        import logging
        def handler(context, event):
            logging.info("x", extra={"with": [1]})
            logging.info("%d items", "not a number")
            context.logger.info_with("y", d={(1, 2): 3}, loop=print)
        """,
        """
        import subprocess
        def handler(context, event):
            subprocess.run(["echo", "hello"], stdout=sys.stdout, check=True)
            sys.stdout.buffer.write(b"bytes")
        """,
    ],
    ids=["unusual log calls", "stdout as a file"],
)
async def test_output_of_any_kind_fails_no_record(tmp_path: Path, handler: str) -> None:
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert not p.failed_records


async def test_a_handler_that_prints_without_end_does_not_hold_up_the_processor(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            while not exists("go"):
                for _ in range(200):
                    print("x" * 200)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        for _ in range(20):
            await asyncio.sleep(0)
            b.dispatcher.sync_progress()  # would not return before the handler does
        (tmp_path / "go").touch()
        await b.settled(p, 1)


@pytest.mark.parametrize(
    "handler",
    [
        """
        async def work():
            await asyncio.sleep(0.01)
            write("ran")
        def handler(context, event):
            return asyncio.get_event_loop().create_task(work())
        """,
        """
        def handler(context, event):
            async def chunks():
                await asyncio.sleep(0.01)
                yield "a"
                write("ran")
            return chunks()
        """,
        """
        def handler(context, event):
            yield "a"
            write("ran")
        """,
        """
        async def handler(context, event):
            yield "a"
            await asyncio.sleep(0.01)
            write("ran")
        """,
    ],
    ids=["task", "async generator", "generator", "async generator handler"],
)
async def test_a_result_that_has_still_to_run_is_run_before_its_record_counts(
    tmp_path: Path, handler: str
) -> None:
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert b.lines() == ["ran"] * 3


async def test_after_nonsense_from_a_worker_nothing_that_it_did_not_report_counts(tmp_path: Path) -> None:
    handler = """
        import struct
        def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
            if event.shard_id == 0 and event.offset == 301 and not exists("said"):
                write("", "said")
                os.write(int(sys.argv[1]), struct.pack("<IB", 1, 99))
                raise ValueError("this must not be lost behind the nonsense")
    """
    async with bench(tmp_path, handler) as b:
        bad, other = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 300))
        await b.settled(bad, 300)
        b.dispatcher.add(bad, records(300, 4))
        b.dispatcher.add(other, records(0, 4))
        b.dispatcher.dispatch()
        await b.settled(bad, 304)
        await b.settled(other, 4)
        assert b.lines().count("0 301") >= 2
        assert {f"0 {offset}" for offset in range(304)} <= set(b.lines())
        assert b.dispatcher.workers[0].restarts == 1


async def test_what_a_handler_forks_does_not_speak_for_it(tmp_path: Path) -> None:
    handler = """
        import multiprocessing
        def shout():
            for _ in range(20):
                print("x" * 200_000)
        def handler(context, event):
            children = [multiprocessing.get_context("fork").Process(target=shout) for _ in range(3)]
            for child in children:
                child.start()
            print("y" * 200_000)
            for child in children:
                child.join()
                assert child.exitcode == 0
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert (dict(p.failed_records), b.dispatcher.workers[0].restarts) == ({}, 0)


async def test_a_process_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, WRITES) as b:
        (p,) = b.assign(("t", 0))
        refusals = iter([OSError(11, "Resource temporarily unavailable")])
        popen = subprocess.Popen

        def refuse_once(*arguments: object, **options: object) -> object:
            for refusal in refusals:
                raise refusal
            return popen(*arguments, **options)  # type: ignore[call-overload]

        monkeypatch.setattr(subprocess, "Popen", refuse_once)
        pid = b.dispatcher.workers[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not b.dispatcher.workers[0].is_ready)
        b.feed(p, records(0, 3))
        await b.settled(p, 3)


async def test_what_a_worker_knows_of_old_assignments_is_forgotten(tmp_path: Path) -> None:
    handler = """
        import gc
        def handler(context, event):
            from headrace.runtime.worker.event import PartitionView
            write(sum(isinstance(found, PartitionView) for found in gc.get_objects()))
    """
    async with bench(tmp_path, handler) as b:
        for _ in range(5):
            (p,) = b.assign(("t", 0))
            b.feed(p, records(0, 1))
            await b.settled(p, 1)
            await b.dispatcher.revoke([p], 10)
        assert b.lines()[-1] == "1"


@pytest.mark.parametrize("callback", ["def on_drain(): ...", "async def on_drain(): await asyncio.sleep(0)"])
@pytest.mark.parametrize(
    "handler",
    [
        """
        def handler(context, event):
            write("in", "in")
            while not exists("drained"):
                sum(range(1000))
        """,
        """
        async def handler(context, event):
            write("in", "in")
            while not exists("drained"):
                await asyncio.sleep(0.005)
        """,
    ],
    ids=["sync", "async"],
)
async def test_drain_callbacks_run_while_their_handlers_run(
    tmp_path: Path, handler: str, callback: str
) -> None:
    source = textwrap.dedent(handler) + textwrap.dedent(
        f"""
        {callback.replace("...", "write(1, 'drained')").replace("sleep(0)", "sleep(0); write(1, 'drained')")}
        def init_context(context):
            context.platform.set_drain_callback(on_drain)
        """
    )
    async with bench(tmp_path, source) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await until(lambda: b.lines("in"))
        await b.dispatcher.revoke([p], 30)
        await until(lambda: b.lines("drained") == ["1"])
        assert p.ledger.committable == 1
        assert b.dispatcher.workers[0].restarts == 0


async def test_a_stop_calls_termination_callbacks_and_waits_for_them(tmp_path: Path) -> None:
    handler = """
        def handler(context, event): ...
        async def on_signal():
            await asyncio.sleep(0.05)
            write("signalled")
        def init_context(context):
            context.platform.on_signal(on_signal)
    """
    async with bench(tmp_path, handler, workers=2) as b:
        b.dispatcher.announce_stop()
        await b.dispatcher.stop(20)
        assert b.lines() == ["signalled"] * 2


async def test_a_callback_that_raises_is_logged_and_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def handler(context, event): ...
        def on_drain():
            raise ValueError("no way")
        def init_context(context):
            context.platform.set_drain_callback(on_drain)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        await b.dispatcher.revoke([p], 10)
        await until(lambda: "drain callback raised" in caplog.text)
        (q,) = b.assign(("t", 0), start=2)
        b.feed(q, records(2, 2))
        await b.settled(q, 4)
