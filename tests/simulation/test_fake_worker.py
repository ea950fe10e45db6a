"""The simulation's worker says what a real one says to the same orders, frame by frame."""

import asyncio
import os
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from chunks import undecoded
from fake_worker import FakeProcess
from virtual_time import in_virtual_time
from worker_bench import Record, until

from headrace.runtime.wire.framing import FrameKind, frame, json_frame
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.outcomes import decode_failed, decode_progress, decode_returned, encode_about
from headrace.runtime.wire.records import RunHeader, encode_chunk, encode_recall, encode_run, encode_slice
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.workers.process import WorkerProcess

HANDLER = """
import asyncio, os, signal
import nuclio_sdk as nuclio

def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def one(context, event):
    match event.body:
        case b"raise":
            raise ValueError(event.offset)
        case b"ack":
            await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))
        case b"ack the next":
            await context.platform.explicit_ack(nuclio.QualifiedOffset("t", 0, event.offset + 1))
        case b"no-ack":
            response = nuclio.Response()
            response.ensure_no_ack()
            return response
        case b"wait":
            await asyncio.Event().wait()
        case b"die":
            die()

async def handler(context, given):
    if not isinstance(given, list):
        return await one(context, given)
    for event in given:
        await one(context, event)
    return [nuclio.Response(event_id=event.id) for event in given if event.body != b"forget"]
"""
Process = WorkerProcess | FakeProcess
Said = list[tuple[FrameKind, Any]]
Orders = Callable[[Process, Said], Coroutine[Any, Any, None]]


class Machine:
    """No latency, no accident."""

    is_async = True

    def latency(self) -> float:
        return 0.001

    load_seconds = latency

    def cut(self, size: int) -> int:
        return size // 2

    def dies_before_saying(self, process: FakeProcess) -> bool:
        return False

    def call(self, process: FakeProcess, context: Any, given: Any) -> Coroutine[Any, Any, Any]:
        names: dict[str, Any] = {}
        exec(HANDLER, names)
        names["die"] = process.end
        result: Coroutine[Any, Any, Any] = names["handler"](context, given)
        return result

    def on_death(self, process: FakeProcess) -> None:
        """Nobody asks."""


def run(first_seq: int, *bodies: bytes, epoch: int = 0, first: int = 0, has_more: bool = False) -> bytes:
    header = RunHeader(1, epoch, first_seq, 1, len(bodies), has_more)
    return encode_run(header, [Record(first + at, body) for at, body in enumerate(bodies)])


LANE = json_frame(FrameKind.LANE, {"lane_id": 1, "topic": "t", "partition": 0})
OWNED = json_frame(FrameKind.OWNED, {"t": {0: ":0"}})


async def done(process: Process, seq: int) -> None:
    await until(lambda: process.slot.read().seq >= seq and not process.slot.read().is_running)


async def one_by_one(process: Process, said: Said) -> None:
    process.send(OWNED, LANE, run(0, b"", b"raise", b"", b""), run(4, b"", first=4))
    await done(process, 2)
    process.send(run(5, b"", epoch=0, first=9))  # what failed has closed its epoch
    process.send(run(6, b"ack", b"no-ack", b"ack the next", b"", epoch=1, first=2))
    await done(process, 10)
    slice_header = RunHeader(1, 1, 10, 1, 2)
    chunk = undecoded(6, 3).chunk
    process.send(encode_chunk(len(chunk.data)), chunk.data)
    process.send(encode_slice(slice_header, chunk.id, 1, 7, is_end=True))
    await done(process, 12)
    process.send(run(12, b"wait", b"", b"", epoch=1, first=9), run(15, b"", epoch=1, first=12))
    await until(lambda: process.slot.read().is_running)
    process.send(encode_recall(1))
    await until(lambda: FrameKind.RETURNED in {kind for kind, _ in said[-1:]})
    process.send(encode_about(FrameKind.CANCEL, 12, "it took long"))
    await done(process, 13)


async def stops(process: Process, said: Said) -> None:
    process.send(OWNED, LANE, run(0, b"", b""), frame(FrameKind.STOP))


async def dies(process: Process, said: Said) -> None:
    process.send(OWNED, LANE, run(0, b"", b"die", b""))


async def is_killed(process: Process, said: Said) -> None:
    process.send(OWNED, LANE, run(0, b"", b"wait", b""))
    await until(lambda: process.slot.read().seq == 1 and process.slot.read().is_running)
    process.kill()


async def in_batches(process: Process, said: Said) -> None:
    process.send(OWNED, LANE, run(0, b"", b"forget", has_more=True), run(2, b"", b"ack", first=2))
    await done(process, 4)
    process.send(run(4, b"", b"raise", first=4))
    await done(process, 6)
    process.send(frame(FrameKind.STOP))


async def heard_of(spawn: Callable[[], Process], orders: Orders) -> tuple[Said, Any]:
    """All that a process says, and how it was when it ended."""
    said: Said = []
    process = spawn()
    process.listen(lambda kind, body: said.append((kind, plain(kind, body))), lambda: None, lambda _: None)
    await until(lambda: said)
    await orders(process, said)
    if not process.exited.done() and orders is one_by_one:
        await until(lambda: said[-1][0] is FrameKind.PROGRESS)
        process.send(frame(FrameKind.STOP))
    code = await asyncio.shield(process.exited)
    progress, acked = process.slot.read(), process.slot.acks.read()
    process.slot.close()
    # one frame or two tell of what wasn't started, by how the orders reach the worker
    returned = [span for kind, spans in said if kind is FrameKind.RETURNED for span in spans]
    others: Said = [(kind, body) for kind, body in said if kind is not FrameKind.RETURNED]
    return others, (returned, code, progress.seq, progress.is_running, acked)


def plain(kind: FrameKind, body: bytes) -> Any:
    """Without times, and without what only says where the handler's file is."""
    if kind is FrameKind.PROGRESS:
        seq, _, count, _ = decode_progress(body)
        return seq, count
    if kind is FrameKind.FAILED:
        first, end, is_named, reason = decode_failed(body)
        return first, end, is_named, reason.splitlines()[0], reason.splitlines()[-1]
    if kind is FrameKind.RETURNED:
        return decode_returned(body)
    return body


@pytest.mark.parametrize("orders", [one_by_one, stops, dies, is_killed, in_batches])
def test_a_simulated_worker_says_what_a_real_one_says(orders: Orders, tmp_path: Path) -> None:
    (tmp_path / "function_code.py").write_text(textwrap.dedent(HANDLER))
    start = WorkerStart(
        str(tmp_path),
        "function_code",
        "handler",
        0,
        "kafka-cluster",
        "t",
        ack_mode="enable",
        takes_acks=True,
        is_batch=orders is in_batches,
        decoder="headrace.triggers.kafka.format.decoder:decode",
    )
    real = asyncio.run(heard_of(lambda: WorkerProcess(start, os.environ, Lease.create(1)), orders))
    played = in_virtual_time(lambda: heard_of(lambda: FakeProcess(start, Lease.create(1), Machine()), orders))
    assert played == real
    assert {kind for kind, _ in real[0]} >= {
        FrameKind.READY,
        *([FrameKind.PROGRESS] if orders is stops else []),
    }
