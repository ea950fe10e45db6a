"""Workers that say what can't be: each is killed and counted, its processor goes on, and nothing is lost."""

import asyncio
import re
import struct
from pathlib import Path

import pytest
from hostile_workers import HARMLESS, LIES, PRELUDE, RETURNS, SCRIBBLES, STAYS, SWALLOWS
from prometheus_client import generate_latest
from worker_bench import Record, bench, records, until

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy, FailurePolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.wire.framing import FrameKind, frame
from headrace.runtime.wire.outcomes import encode_failed, encode_progress, encode_returned, encode_seq
from headrace.runtime.workers import watchdog

# Says once, for each record, what that has for a body.
SAYS = """
    def handler(context, event):
        if not exists(f"said{event.offset}"):
            write("", f"said{event.offset}")
            os.write(int(sys.argv[1]), event.body)
            time.sleep(60)
        write(event.offset)
"""
HOSTILE = [
    encode_progress(2**40, 0, 1),
    encode_failed(2**40, 2**40 + 1, "no"),
    encode_returned([(0, 2**40)]),
    encode_seq(FrameKind.UNACKED, 2**63),
    frame(FrameKind.READY, b"\1"),
    frame(FrameKind.RUN),
    frame(FrameKind.SPARK_SESSION, b"another's"),
    struct.pack("<II", 4, 99),
    struct.pack("<I", 2**32 - 1) + frame(FrameKind.LOG)[4:],
]


@pytest.mark.full
async def test_a_worker_that_says_what_cannot_be_is_killed_and_counted_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, SAYS) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, [Record(offset, frame) for offset, frame in enumerate(HOSTILE)])
        await b.settled(p, len(HOSTILE))
        # What it had handled and not said yet runs again: its slot isn't believed either.
        assert set(b.lines()) == {str(offset) for offset in range(len(HOSTILE))}
        assert dict(p.failed) == {}
        assert b.dispatcher.workers[0].restarts == len(HOSTILE)
        said = generate_latest(b.metrics.registry).decode()
        (refused,) = re.findall(r"^headrace_workers_refused_total\{.*\} (.*)$", said, re.MULTILINE)
        assert float(refused) == len(HOSTILE)
    assert caplog.text.count("says what can't be") == len(HOSTILE)
    assert "Traceback" not in caplog.text


@pytest.mark.full_but("a frame")
@pytest.mark.parametrize("where", ["a frame", "shared memory"])
async def test_a_huge_span_of_acks_holds_up_nobody(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = f"""
        from headrace.runtime.wire.outcomes import encode_acked

        def handler(context, event):
            if not exists("said"):
                write("", "said")
                lane_id = int((FOLDER / "lane").read_text())
                if {where == "a frame"}:
                    os.write(int(sys.argv[1]), encode_acked(lane_id, 0, 2**50, 1))
                else:
                    scribble(2, lane_id, 0, 2**50)
                time.sleep(60)
            write(event.offset)
    """
    policy = DeliveryPolicy(ack_mode=AckMode.ENABLE)
    async with bench(tmp_path, handler, policy=policy, static=True, router=AckRouter()) as b:
        (p,) = b.assign(("t", 0))
        b.dispatcher.on_assigned([p.key])
        (tmp_path / "lane").write_text(str(p.lane.id))
        b.feed(p, [Record(offset) for offset in range(3)])
        await until((tmp_path / "said").exists)
        async with asyncio.timeout(60):
            while not b.dispatcher.workers[0].restarts:
                b.dispatcher.sync_progress()
                await asyncio.sleep(0.01)
        await b.settled(p, 3)
        assert b.lines() == ["0", "1", "2"]
    assert caplog.text.count("is refused") == 0


async def test_memory_that_a_worker_has_scribbled_over_settles_nothing(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            if not exists("said"):
                write("", "said")
                scribble(0, *[2**64 - 1] * 5)
                os.kill(os.getpid(), signal.SIGKILL)
            write(event.offset)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, [Record(offset) for offset in range(3)])
        await b.settled(p, 3)
        assert b.lines() == ["0", "1", "2"]


TWO_ATTEMPTS = FailurePolicy(max_attempts=2, backoff_seconds=0.01, max_backoff_seconds=0.02, then="skip")


async def attacked(folder: Path, act: str, then: str) -> tuple[list[int], int]:
    """Five records to a worker that attacks in the third: what it handled, and how often it was replaced.

    They are all settled in the end, each was handled before, and what another trigger does isn't touched.
    """
    policy = DeliveryPolicy(failure=TWO_ATTEMPTS, ack_mode=AckMode.ENABLE)
    act = act.replace("{lane_id}", "int((FOLDER / 'lane').read_text())")
    handler = PRELUDE.replace("{act}", act).replace("{then}", then)
    async with (
        bench(folder / "other", "def handler(context, event): write(event.offset)") as other,
        bench(folder / "hostile", handler, policy=policy, static=True, router=AckRouter()) as b,
    ):
        (p,), (others,) = b.assign(("t", 0)), other.assign(("o", 0))
        b.dispatcher.on_assigned([p.key])
        (b.folder / "lane").write_text(str(p.lane.id))
        b.expect_quick_handlers()
        b.feed(p, records(0, 5))
        async with asyncio.timeout(120):
            while p.ledger.committable < 5:
                b.dispatcher.sync_progress()
                assert p.ledger.committable <= 1 + max(map(int, b.lines()), default=-1)
                await asyncio.sleep(0.01)
        other.feed(others, records(0, 3))
        await other.settled(others, 3)
        assert other.lines() == ["0", "1", "2"]
        assert other.dispatcher.workers[0].restarts == 0
        return [int(line) for line in b.lines()], b.dispatcher.workers[0].restarts


@pytest.mark.full_but("it kills itself", "random*")
@pytest.mark.parametrize("act", LIES.values(), ids=LIES)
async def test_what_ends_a_worker_is_an_attempt_of_the_record_that_it_was_in(
    tmp_path: Path, act: str
) -> None:
    handled, restarts = await attacked(tmp_path, act, STAYS)
    assert handled.count(2) == 2
    assert set(handled) == set(range(5))
    assert restarts == 2


@pytest.mark.full_but("three bytes")
@pytest.mark.parametrize("act", SWALLOWS.values(), ids=SWALLOWS)
async def test_a_failure_that_was_swallowed_is_no_success(tmp_path: Path, act: str) -> None:
    handled, restarts = await attacked(tmp_path, act, "fail()")
    assert handled.count(2) >= 2
    assert len(handled) < 30
    assert restarts


@pytest.mark.full_but("its slot is full of ones")
@pytest.mark.parametrize("act", SCRIBBLES.values(), ids=SCRIBBLES)
async def test_where_a_worker_was_is_not_known_it_ends_by_the_policy_all_the_same(
    tmp_path: Path, act: str
) -> None:
    handled, restarts = await attacked(tmp_path, act, STAYS)
    assert 2 <= handled.count(2) <= 4  # those before it in its run are to blame first, once
    assert restarts == handled.count(2)


@pytest.mark.full_but("every descriptor cut short", "every descriptor made longer")
@pytest.mark.parametrize("act", HARMLESS.values(), ids=HARMLESS)
async def test_what_a_worker_cannot_do_harms_nobody(tmp_path: Path, act: str) -> None:
    handled, restarts = await attacked(tmp_path, act, RETURNS)
    assert handled == list(range(5))
    assert restarts == 0


async def test_a_worker_without_its_descriptors_is_replaced(tmp_path: Path) -> None:
    handled, restarts = await attacked(tmp_path, "on_each(os.close)", RETURNS)
    assert set(handled) == set(range(5))
    assert restarts == 1


async def test_a_worker_that_does_not_hear_of_its_records_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "BEGIN_SECONDS", 0.5)
    handler = """
        import socket
        ends = socket.socketpair()

        def handler(context, event):
            write(event.offset)
            if event.offset == 2:
                os.dup(int(sys.argv[1]))
                os.dup2(ends[0].fileno(), int(sys.argv[1]))
    """
    # A busy machine may hold up who has heard of its records for as long.
    policy = DeliveryPolicy(failure=FailurePolicy(100, 0.01, 0.01), event_timeout_seconds=2.0)
    async with bench(tmp_path, handler, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        for first in (0, 3, 6):  # the second three have been read for already
            b.feed(p, records(first, 3))
            async with asyncio.timeout(300):
                while p.ledger.committable < first + 3:
                    b.dispatcher.sync_progress()
                    await asyncio.sleep(0.01)
        assert b.lines() == [str(offset) for offset in range(9)]
        assert b.dispatcher.workers[0].restarts == 1


async def test_what_a_worker_says_once_it_was_told_to_stop_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lies = "say(outcomes.encode_progress(2**40, 0, 1), framing.frame(FrameKind.READY, b'1'), b'abc')"
    act = f"its_names()['self']._env.inbox.stop = lambda: (write('lied'), {lies}, os._exit(0))"
    handler = PRELUDE.replace("{act}", act).replace("{then}", RETURNS)
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        await b.dispatcher.workers[0].stop(60)
        assert b.lines() == ["0", "1", "2", "lied"]
    assert p.ledger.committable == 3
    assert "Traceback" not in caplog.text
