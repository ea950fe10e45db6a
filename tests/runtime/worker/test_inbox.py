"""The worker's queue under its two threads: each record is handled or given back, and not both."""

import sys
import threading
from collections.abc import Iterator

import pytest
from worker_bench import records

from headrace.runtime.wire.framing import FrameKind, split_frames
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.outcomes import decode_returned, encode_failed
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import RunHeader, SentRecord, decode_records, encode_run
from headrace.runtime.worker.inbox import Inbox, PendingRun


def run(lane_id: int, first_seq: int, count: int, epoch: int = 0) -> PendingRun:
    header = RunHeader(lane_id, epoch, first_seq, 1, count)
    body = encode_run(header, records(first_seq, count))[8:]
    return PendingRun(header, lambda: decode_records(body))


def slot() -> ProgressSlot:
    return ProgressSlot(-1, Lease.create(1))


class Sent:
    """What went to the processor."""

    def __init__(self) -> None:
        self.frames: list[tuple[FrameKind, bytes]] = []

    def __call__(self, data: bytes) -> None:
        self.frames += split_frames(bytearray(data))

    @property
    def returned(self) -> list[int]:
        spans = [s for kind, body in self.frames if kind is FrameKind.RETURNED for s in decode_returned(body)]
        return [seq for span in spans for seq in range(*span)]


def test_a_recall_takes_the_tail_of_the_open_run_and_all_waiting_ones() -> None:
    sent = Sent()
    inbox = Inbox(sent, lambda: None, slot())
    for pending in (run(1, 0, 5), run(2, 5, 3), run(1, 8, 4)):
        inbox.put(pending)
    current = inbox.next()
    assert current is not None
    current.records.popleft()
    inbox.recall(1)
    assert sent.returned == [1, 2, 3, 4, 8, 9, 10, 11]
    following = inbox.next()
    assert following is not None
    assert following.header.lane_id == 2
    assert inbox.next() is None


def test_a_run_is_entered_before_it_is_decoded() -> None:
    memory = slot()
    inbox = Inbox(Sent(), lambda: None, memory)
    header = RunHeader(1, 0, 7, 1, 3)
    seen: list[tuple[int, bool]] = []

    def decode() -> list[SentRecord]:
        seen.append(memory.read()[:2])
        return []

    inbox.put(PendingRun(header, decode))
    assert not memory.read().is_running
    inbox.next()
    assert seen == [(7, True)]


def test_after_a_failure_runs_of_that_epoch_come_back_and_later_ones_are_taken() -> None:
    sent = Sent()
    inbox = Inbox(sent, lambda: None, slot())
    inbox.put(run(1, 0, 3))
    current = inbox.next()
    assert current is not None
    current.records.popleft()
    inbox.fail(current, 0, "no")
    inbox.put(run(1, 3, 2))  # was on its way
    inbox.put(run(1, 5, 2, epoch=1))
    assert sent.frames[0] == (FrameKind.FAILED, encode_failed(0, 1, "no")[8:])
    assert sent.returned == [1, 2, 3, 4]
    taken = inbox.next()
    assert taken is not None
    assert taken.header.first_seq == 5


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns so soon that one finds the other amid its work."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_switches")
def test_a_recall_during_a_run_splits_it_without_a_gap_or_an_overlap() -> None:
    count = 20_000
    for _ in range(20):
        sent = Sent()
        inbox = Inbox(sent, lambda: None, slot())
        inbox.put(run(1, 0, count))
        current = inbox.next()
        assert current is not None
        is_under_way = threading.Event()

        def recall(inbox: Inbox = inbox, event: threading.Event = is_under_way) -> None:
            event.wait()
            inbox.recall(1)

        thread = threading.Thread(target=recall)
        thread.start()
        handled = []
        while current.records:
            try:
                handled.append(current.records.popleft().offset)
            except IndexError:
                break
            if len(handled) == 100:
                is_under_way.set()
        thread.join()
        assert sorted(handled + sent.returned) == list(range(count))
