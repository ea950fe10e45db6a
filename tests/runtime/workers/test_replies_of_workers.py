"""Replies of a real worker: what its handler returns comes back, before the record's outcome."""

import os
import signal
from pathlib import Path

import pytest
from lone_worker import HeardLane, lines, lone_worker
from worker_bench import until

from headrace.runtime.wire.reply import MAX_PART_BYTES, NOBODY, REPLY_WINDOW_BYTES, Reply

TEXT = "text/plain"


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_each_record_is_answered_before_it_is_settled(tmp_path: Path, kind: str) -> None:
    handler = f"""
        {kind} handler(context, event):
            if event.body == b"json":
                return {{"n": event.offset}}
            if event.body == b"none":
                return None
            return context.Response(
                headers={{"x": "y"}}, body=event.body, content_type="a/b", status_code=201
            )
    """
    async with lone_worker(tmp_path, handler, wants_replies=True) as (worker, heard):
        lane = HeardLane(heard, b"json", b"none", b"\xff")
        worker.sender.send(lane, lane.take(3))
        await until(lambda: lane.ledger.committable == 3)
        assert heard.replies == {
            (0, 0): Reply(200, "application/json", (), b'{"n": 0}'),
            (0, 1): Reply(200, TEXT, (), b""),
            (0, 2): Reply(201, "a/b", (("x", b"y"),), b"\xff"),
        }
        assert heard.told == [*(("replied", 0, [n]) for n in range(3)), ("handled", 0, [0, 1, 2])]


async def test_nothing_is_answered_where_nobody_waits(tmp_path: Path) -> None:
    async with lone_worker(tmp_path, "def handler(context, event):\n    return 'hello'") as (worker, heard):
        lane = HeardLane(heard, b"", b"")
        worker.sender.send(lane, lane.take(2))
        await until(lambda: lane.ledger.committable == 2)
        assert heard.told == [("handled", 0, [0, 1])]


async def test_a_handler_that_raises_answers_nothing_and_one_that_says_it_failed_does(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            if event.body == b"raises":
                raise ValueError("no")
            if event.body == b"odd":
                return (1000, "what is that?")
            return (503, "later")
    """
    async with lone_worker(tmp_path, handler, wants_replies=True) as (worker, heard):
        lanes = [HeardLane(heard, body, number=n) for n, body in enumerate([b"raises", b"odd", b"busy"])]
        for lane in lanes:
            worker.sender.send(lane, lane.take(1))
        await until(lambda: not any(lane.in_flight_count for lane in lanes))
        assert [told[:3] for told in heard.told] == [
            ("failed", 0, [0]),
            ("failed", 1, [0]),
            ("replied", 2, [0]),
            ("failed", 2, [0]),
        ]
        assert "ValueError: no" in heard.told[0][3]
        assert "1000 for a status" in heard.told[1][3]
        assert heard.replies == {(2, 0): Reply(503, TEXT, (), b"later")}


async def test_a_reply_of_many_megabytes_arrives_whole(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            return bytes(range(256)) * (int(event.body) << 12)
    """
    async with lone_worker(tmp_path, handler, wants_replies=True) as (worker, heard):
        lane = HeardLane(heard, b"30", b"0", b"5")
        worker.sender.send(lane, lane.take(3))
        await until(lambda: lane.ledger.committable == 3)
        bodies = [heard.replies[0, n].body for n in range(3)]
        assert bodies == [bytes(range(256)) * (mebibytes << 12) for mebibytes in (30, 0, 5)]


class Listens(HeardLane):
    """Keeps what comes in parts, and takes it when it is told to."""

    parts = b""
    is_whole = False

    def on_reply_part(self, data: bytes, *, is_last: bool) -> None:
        self.parts += data
        self.is_whole = is_last


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_what_a_handler_yields_is_an_answer_in_parts(tmp_path: Path, kind: str) -> None:
    handler = f"""
        {kind} handler(context, event):
            for part in ("a", b"b", "c"):
                yield part
    """
    async with lone_worker(tmp_path, handler, wants_replies=True) as (worker, heard):
        lane = Listens(heard, b"")
        worker.sender.send(lane, lane.take(1))
        await until(lambda: lane.ledger.committable == 1)
        assert heard.replies == {(0, 0): Reply(200, TEXT, (), b"", has_more=True)}
        assert (lane.parts, lane.is_whole) == (b"abc", True)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_parts_wait_until_those_before_them_are_taken(tmp_path: Path, kind: str) -> None:
    handler = f"""
        {kind} handler(context, event):
            for part in range(10):
                yield "x" * 1_000_000
    """
    async with lone_worker(tmp_path, handler, wants_replies=True) as (worker, heard):
        lane = Listens(heard, b"")
        worker.sender.send(lane, lane.take(1))
        for taken in range(0, 10_000_000, 500_000):
            await until(lambda at=taken: len(lane.parts) >= min(at + REPLY_WINDOW_BYTES, 10_000_000))
            assert len(lane.parts) <= taken + REPLY_WINDOW_BYTES + MAX_PART_BYTES
            worker.sender.take_reply(lane, taken + 500_000)
        await until(lambda: lane.ledger.committable == 1)
        assert (len(lane.parts), lane.is_whole) == (10_000_000, True)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_handler_whose_answer_nobody_takes_any_more_ends(tmp_path: Path, kind: str) -> None:
    handler = f"""
        {kind} handler(context, event):
            try:
                while True:
                    yield "x" * 100_000
            finally:
                write("ended")
    """
    async with lone_worker(tmp_path, handler, wants_replies=True) as (worker, heard):
        lane = Listens(heard, b"")
        worker.sender.send(lane, lane.take(1))
        await until(lambda: len(lane.parts) >= REPLY_WINDOW_BYTES)
        worker.sender.take_reply(lane, NOBODY)
        await until(lambda: not lane.in_flight_count)
        assert heard.told[-1][0] == "failed"
        assert "nobody takes the rest" in heard.told[-1][3]
        assert lines(tmp_path) == ["ended"]


async def test_a_worker_that_dies_after_its_answer_has_answered(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write("called")
            if event.offset == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return "done"
    """
    async with lone_worker(tmp_path, handler, wants_replies=True) as (worker, heard):
        lane = HeardLane(heard, b"", b"", b"")
        worker.sender.send(lane, lane.take(3))
        await until(lambda: not lane.in_flight_count)
        assert [told[:3] for told in heard.told] == [
            ("replied", 0, [0]),
            ("handled", 0, [0]),
            ("failed", 0, [1]),
            ("returned", 0, [2]),
        ]
        assert len(lines(tmp_path)) == 2


async def test_each_event_of_a_batch_has_its_own_answer(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            answers = {
                b"good": dict(body="well"),
                b"bad": dict(body="alas", status_code=500),
                b"odd": dict(body={"a": object()}),
            }
            return [
                context.Response(**answers[event.body], event_id=event.id)
                for event in events if event.body in answers
            ]
    """
    async with lone_worker(tmp_path, handler, wants_replies=True, is_batch=True) as (worker, heard):
        lane, other = (
            HeardLane(heard, b"good", b"bad", b"good", number=0),
            HeardLane(heard, b"odd", b"none", b"good", number=1),
        )
        worker.sender.send_batch([(lane, lane.take(3)), (other, other.take(3))])
        await until(lambda: not (lane.in_flight_count or other.in_flight_count))
        well = Reply(200, TEXT, (), b"well")
        assert heard.replies == {
            (0, 0): well,
            (0, 1): Reply(500, TEXT, (), b"alas"),
            (0, 2): well,
            (1, 2): well,
        }
        assert [told[:3] for told in heard.told if told[0] != "replied"] == [
            ("handled", 0, [0]),
            ("failed", 0, [1]),
            ("handled", 0, [2]),
            ("failed", 1, [0]),
            ("failed", 1, [1]),
            ("handled", 1, [2]),
        ]


async def test_a_batch_that_is_killed_has_answered_nothing(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            write("called")
            wait_for("never")
    """
    async with lone_worker(tmp_path, handler, wants_replies=True, is_batch=True) as (worker, heard):
        lane = HeardLane(heard, b"", b"")
        worker.sender.send_batch([(lane, lane.take(2))])
        await until(lambda: lines(tmp_path))
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        await until(lambda: not lane.in_flight_count)
        assert [told[0] for told in heard.told] == ["suspected"]
