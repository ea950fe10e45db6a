"""Workers that say what can't be: each is killed and counted, its processor goes on, and nothing is lost."""

import asyncio
import re
import struct
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from worker_bench import Record, bench, until

from headrace.runtime.config.delivery import AckMode, DeliveryPolicy
from headrace.runtime.dispatch.acks.router import AckRouter
from headrace.runtime.wire import frames as wire
from headrace.runtime.wire.frames import Kind

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
    wire.encode_progress(2**40, 0, 1),
    wire.encode_failed(2**40, 2**40 + 1, "no"),
    wire.encode_returned([(0, 2**40)]),
    wire.encode_seq(Kind.UNACKED, 2**63),
    wire.frame(Kind.READY, b"\1"),
    wire.frame(Kind.RUN),
    wire.frame(Kind.SPARK_SESSION, b"another's"),
    struct.pack("<IB", 1, 99),
    struct.pack("<IB", 2**32 - 1, Kind.LOG),
]


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


@pytest.mark.parametrize("where", ["a frame", "shared memory"])
async def test_a_huge_span_of_acks_holds_up_nobody(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = f"""
        import mmap, struct

        def handler(context, event):
            if not exists("said"):
                write("", "said")
                lane_id = int((FOLDER / "lane").read_text())
                if {where == "a frame"}:
                    os.write(int(sys.argv[1]), struct.pack("<IBIqq", 21, 25, lane_id, 0, 2**50))
                else:
                    struct.pack_into("<QQQ", mmap.mmap(int(sys.argv[2]), 0), 16, lane_id, 0, 2**50)
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
        import mmap, struct

        def handler(context, event):
            if not exists("said"):
                write("", "said")
                struct.pack_into("<QQQQQ", mmap.mmap(int(sys.argv[2]), 0), 0, *[2**64 - 1] * 5)
                os.kill(os.getpid(), signal.SIGKILL)
            write(event.offset)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, [Record(offset) for offset in range(3)])
        await b.settled(p, 3)
        assert b.lines() == ["0", "1", "2"]
