"""What a worker reads from its socket."""

import random
import socket
import threading
from typing import cast

import pytest

from headrace.runtime.wire.framing import FrameKind, frame
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import encode_chunk
from headrace.runtime.worker.link import Link


@pytest.mark.parametrize("seed", range(3))
def test_frames_come_whole_and_in_order_however_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [0, 1, 7, 100, 1 << 16, (1 << 16) + 1, 300_000, 2_000_000]
    kinds = [FrameKind.CHUNK, FrameKind.CHUNK, FrameKind.RUN, FrameKind.LANE]
    sent = [(rng.choice(kinds), rng.randbytes(rng.choice(sizes))) for _ in range(60)]
    data = b"".join(
        encode_chunk(len(body)) + body if kind is FrameKind.CHUNK else frame(kind, body)
        for kind, body in sent
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def write() -> None:
            at = 0
            while at < len(data):
                end = at + rng.choice([1, 3, 8, 1000, 100_000, 1 << 20])
                theirs.sendall(data[at:end])
                at = end

        writing = threading.Thread(target=write)
        writing.start()
        link, found = Link(ours, cast("ProgressSlot", None)), list[tuple[FrameKind, bytes]]()
        while len(found) < len(sent):
            found += link.receive()
        writing.join()
    assert found == sent
