"""What a handler may learn of a message that it has produced, and when."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest

from headrace.runtime.wire.framing import split_frames
from headrace.runtime.wire.produce import (
    NO_LANE,
    PRODUCE_WINDOW_BYTES,
    WAITING,
    Message,
    ProduceRequest,
    ProduceResult,
    decode_produce,
    encode_produced,
)
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.worker.api.producing import Confirmed, PendingMessage, ProduceError, WorkerProducer

WRITTEN = ProduceResult(0, 3, 7)
NOT_WRITTEN = ProduceResult(0, failure="there is no topic t")


class Worker:
    """Has produced one message, and takes what its processor says of it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._produces = WorkerProducer(self.sent.append, self._place)
        self.produce = self._produces.produce
        self.message = self.produce(Message("t", b"x"))

    def _place(self) -> tuple[int, int, WireRecord | None]:
        return NO_LANE, -1, None

    def said(self) -> Iterator[ProduceRequest]:
        """All that it has sent, in that order."""
        for _, body in split_frames(bytearray(b"".join(self.sent))):
            yield decode_produce(body)

    def hear(self, said: ProduceResult) -> None:
        [(_, body)] = split_frames(bytearray(encode_produced([said])))
        self._produces.on_produced(body)


def heard(said: ProduceResult) -> PendingMessage:
    worker = Worker()
    worker.hear(said)
    return worker.message


def test_who_asks_after_it_was_written_is_told_at_once() -> None:
    assert heard(WRITTEN).result(0) == Confirmed(3, 7)
    with pytest.raises(ProduceError, match="there is no topic t"):
        heard(NOT_WRITTEN).result(0)


def test_who_asks_before_it_was_written_waits() -> None:
    worker = Worker()
    with pytest.raises(TimeoutError):
        worker.message.result(0)
    threading.Thread(target=worker.hear, args=[WRITTEN]).start()
    assert worker.message.result(30) == worker.message.result(0) == Confirmed(3, 7)


def test_what_waits_where_it_goes_is_not_at_its_end_and_leaves_its_room_to_others() -> None:
    worker = Worker()
    large = Message("t", b"x" * PRODUCE_WINDOW_BYTES)
    for number in range(3):
        worker.hear(ProduceResult(number, WAITING))
        worker.produce(large)  # returns
    with pytest.raises(TimeoutError):
        worker.message.result(0)
    worker.hear(WRITTEN)
    assert worker.message.result(0) == Confirmed(3, 7)


async def test_it_is_awaited_by_several_and_again() -> None:
    worker = Worker()

    async def ask() -> Confirmed:
        return await worker.message

    asked = [asyncio.create_task(ask()) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.to_thread(worker.hear, WRITTEN)
    assert await asyncio.gather(*asked) == 2 * [Confirmed(3, 7)]
    assert await worker.message == Confirmed(3, 7)


async def test_who_gives_up_waiting_keeps_nobody_from_learning_of_it() -> None:
    worker = Worker()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(worker.message, 0.001)
    worker.hear(WRITTEN)
    assert await worker.message == Confirmed(3, 7)


@pytest.fixture
def _threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_threads_change_often")
def test_what_threads_produce_is_sent_by_its_numbers_and_in_each_threads_order() -> None:
    worker = Worker()

    def produce(key: bytes) -> None:
        for number in range(1000):
            worker.produce(Message("t", b"%d" % number, key))

    threads = [threading.Thread(target=produce, args=[b"%d" % number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = list(worker.said())
    assert [it.number for it in said] == list(range(4001))
    for key in {it.message.key for it in said if it.message.key}:
        values = [int(it.message.value or b"") for it in said if it.message.key == key]
        assert all(before < after for before, after in pairwise(values))


def test_what_cannot_be_a_message_takes_no_number() -> None:
    worker = Worker()
    for wrong in (Message("\ud800", b"x"), Message("t", b"x", partition=2**40)):
        with pytest.raises(ValueError, match=r"produce\(.*\): "):
            worker.produce(wrong)
    worker.produce(Message("t", b"x"))
    assert [it.number for it in worker.said()] == [0, 1]
