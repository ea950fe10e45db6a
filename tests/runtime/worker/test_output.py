"""What a handler prints and logs: line by line, bounded, and from signal handlers too."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from worker_bench import bench, records

from headrace.runtime.wire.framing import FrameKind, frame, split_frames
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.outcomes import decode_failed, decode_log, encode_about, encode_failed
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.worker.link import Link
from headrace.runtime.worker.output import LineSink


class Lines:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.sink = LineSink(lambda line: self.sent.append(line["message"]), 20, 1)

    def __call__(self, *pieces: str) -> list[Any]:
        self.sent.clear()
        for piece in pieces:
            self.sink.write(piece.encode())
        return list(self.sent)


def test_a_line_ends_at_a_line_feed_or_a_carriage_return() -> None:
    lines = Lines()
    assert lines("a\nb\r\nc\rd", "e\n", "\n") == ["a", "b", "c", "de", ""]
    assert lines("\r 10 %", "\r 20 %", "\r 30 %\n") == [" 10 %", " 20 %", " 30 %"]


def test_a_line_without_an_end_comes_in_parts_and_none_of_it_is_lost() -> None:
    lines = Lines()
    text = "0123456789" * 100_000
    sent = lines(*(text[at : at + 1000] for at in range(0, len(text), 1000)), "\n")
    assert "".join(sent) == text
    assert max(map(len, sent)) <= 65_536
    assert "".join(lines("é" * 100_000, "\n")) == "é" * 100_000


def test_output_without_newlines_takes_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        lines = Lines()
        began = time.process_time()
        for _ in range(count):
            lines.sink.write(b"." * 100)
        return time.process_time() - began

    few = min(seconds(4_000) for _ in range(3))
    assert seconds(40_000) < 40 * few


@contextmanager
def linked() -> Iterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        yield Link(ours, ProgressSlot(-1, Lease.create(1))), theirs


def frames_in(sock: socket.socket, count: int) -> list[bytes]:
    received, frames = bytearray(), list[bytes]()
    while len(frames) < count:
        received += sock.recv(1 << 16)
        frames += [body for _, body in split_frames(received)]
    return frames


@pytest.fixture
def alarms() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("alarms")
@pytest.mark.parametrize("raises", [False, True])
def test_a_signal_handler_may_send_amid_a_frame_and_may_raise(raises: bool) -> None:
    with linked() as (link, theirs):
        amid, long = frame(FrameKind.LOG, b"amid"), frame(FrameKind.LOG, b"x" * 1_000_000)

        def on_alarm(*_: object) -> None:
            link.send(amid)
            reading.start()
            if raises:
                raise TimeoutError("the handler's own")

        heard: list[bytes] = []
        reading = threading.Thread(target=lambda: heard.extend(frames_in(theirs, 3)))
        signal.signal(signal.SIGUSR1, on_alarm)
        # By then the socket is full: nobody reads.
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        if raises:
            with pytest.raises(TimeoutError, match="own"):
                link.send(long)
        else:
            link.send(long)
        link.send(frame(FrameKind.LOG, b"after"))
        reading.join(120)
        assert heard == [b"x" * 1_000_000, b"amid", b"after"]


@pytest.mark.full_but("print('p' [*] 3000)-raise TimeoutError('too late')")
@pytest.mark.parametrize("raising", ["", "raise TimeoutError('too late')"])
@pytest.mark.parametrize("says", ["print('p' * 3000)", "context.logger.info('l' * 3000)"])
async def test_a_signal_handler_that_prints_holds_up_no_worker(
    tmp_path: Path, says: str, raising: str
) -> None:
    handler = f"""
        import logging

        def on_alarm(*_):
            print("from the signal handler")
            logging.warning("from the signal handler")
            write("", "alarms")
            {raising or "pass"}

        def handler(context, event):
            signal.signal(signal.SIGALRM, on_alarm)
            before = exists("alarms") and (FOLDER / "alarms").stat().st_size
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.003)
                while (exists("alarms") and (FOLDER / "alarms").stat().st_size) == before:
                    for _ in range(20):
                        {says}
            except TimeoutError:
                pass
            write(event.offset)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 30))
        await b.settled(p, 30)
        assert b.lines() == [str(offset) for offset in range(30)]
        assert (dict(p.failed), b.dispatcher.workers[0].restarts) == ({}, 0)


@pytest.mark.parametrize(
    "failing",
    ["raise ValueError('v' * 10_000_000)", "raise type('E' * 1_000_000, (Exception,), {})('x')"],
)
async def test_the_text_of_a_failure_is_bounded(
    tmp_path: Path, failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = f"""
        def handler(context, event):
            if event.attempt == 1:
                {failing}
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await b.settled(p, 1)
    (failure,) = [record for record in caplog.records if "failed at attempt 1" in record.getMessage()]
    assert len(failure.getMessage()) < 600
    line = failure.__dict__["error"]
    assert "Traceback (most recent call last)" in line
    assert "characters left out" in line
    assert len(line) < 17_000


async def test_a_log_line_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    handler = """
        def handler(context, event):
            context.logger.info("first" + "m" * 5_000_000 + "last")
            context.logger.info_with("bound", value="w" * 5_000_000, whole=[7] * 1_000_000, small=7)
            context.logger.info_with("many", **{f"value{number}": "w" * 10_000 for number in range(100)})
    """
    with caplog.at_level("INFO"):
        async with bench(tmp_path, handler) as b:
            (p,) = b.assign(("t", 0))
            b.feed(p, records(0, 1))
            await b.settled(p, 1)
    [long] = [r.getMessage() for r in caplog.records if r.getMessage().startswith("first")]
    assert long.endswith("last")
    assert len(long) <= 65_536
    [bound] = [r.__dict__["given"] for r in caplog.records if r.getMessage() == "bound"]
    assert max(len(bound["value"]), len(bound["whole"])) <= 16_384
    assert bound["small"] == 7
    [many] = [r.__dict__["given"] for r in caplog.records if r.getMessage() == "many"]
    assert (many["value0"], many["left_out"]) == ("w" * 10_000, "94 values")
    assert len(str(many)) <= 65_536


def test_what_is_received_is_bounded_as_well() -> None:
    body = encode_failed(0, 1, "")[8:] + b"r" * 1_000_000
    assert len(decode_failed(body)[3]) <= 16_384


def test_what_a_line_has_beside_it_is_bounded_where_it_is_received_too() -> None:
    line = {"level": 20, "message": "m", "with": {"value": "w" * 1_000_000}, "of": ["t" * 1_000_000, 0, 1]}
    _, read = decode_log(encode_about(FrameKind.LOG, 0, json.dumps(line))[8:])
    assert max(len(read["with"]["value"]), len(read["of"][0])) <= 16_384
