"""An answer is on its way before anybody can find its record done: else nobody knows whose it is."""

from pathlib import Path

import pytest

from headrace.runtime.wire.framing import FrameKind, split_frames
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.progress_slot import Progress, ProgressSlot
from headrace.runtime.wire.records import RunHeader, SentRecord, encode_run
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.api.event_loop import WorkerEventLoop
from headrace.runtime.worker.handler import Handler
from headrace.runtime.worker.loop import WorkerLoop


class Wire:
    """Keeps what is said, each with where the worker was by its slot."""

    def __init__(self, slot: ProgressSlot) -> None:
        self._slot = slot
        self.said: list[tuple[FrameKind, Progress]] = []

    def send(self, data: bytes) -> None:
        now = self._slot.read()
        self.said += [(kind, now) for kind, _ in split_frames(bytearray(data))]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_record_is_still_running_when_its_answer_goes_out(
    tmp_path: Path, count: int, is_async: bool
) -> None:
    slot, loop = ProgressSlot(-1, Lease.create(1)), WorkerEventLoop()
    link = Wire(slot)
    start = WorkerStart(str(tmp_path), "m", "handler", 0, "test", "t", wants_replies=True)
    worker = WorkerLoop(link.send, slot, start, loop)

    async def answers(_: object, __: object) -> str:
        return "hello"

    worker.use(Handler(answers if is_async else lambda *_: "hello", is_async), None)
    worker.lanes.add(1, "t", 0)
    records = [SentRecord(offset, 0, 0, None, b"", b"") for offset in range(count)]
    frames = bytearray(encode_run(RunHeader(1, 0, 0, 1, count), records))
    ((kind, body),) = split_frames(frames)
    worker.receive(kind, body)
    worker.inbox.stop()
    worker.run_forever()
    loop.close()
    replies = [now for kind, now in link.said if kind is FrameKind.REPLY]
    assert [(now.seq, now.is_running) for now in replies] == [(seq, True) for seq in range(count)]
