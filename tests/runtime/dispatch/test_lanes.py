"""Lanes that are no partition's own: answered, withdrawn, forgotten; and two of them over one ledger."""

from dataclasses import replace
from pathlib import Path

from worker_bench import QUICK, Record, bench, until

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import of_records
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.record_buffer import RecordBuffer
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.testing.trial_lane import TrialLane, TrialRecord
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.reply import Reply

ANSWERS = replace(QUICK, wants_replies=True)


class Request(TrialLane):
    """One record, whose answer somebody waits for."""

    def __init__(self, value: bytes) -> None:
        super().__init__(PartitionKey("requests", 0), [TrialRecord(0, value)])
        self.reply: Reply | None = None
        self.failure = ""

    def on_replied(self, record: WireRecord, reply: Reply) -> None:
        self.reply = reply

    def on_failed(self, records: object, reason: str, among: int) -> None:
        self.failure = reason

    def on_returned(self, records: object) -> None:
        self.in_flight_count = 0


async def test_requests_are_answered_by_whoever_is_free_and_forgotten(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            return f"{event.body.decode()} {context.worker_id}"
    """
    async with bench(tmp_path, handler, workers=2, policy=ANSWERS) as b:
        requests = [Request(b"%d" % number) for number in range(20)]
        for request in requests:
            b.dispatcher.submit(request)
        b.dispatcher.dispatch()
        await until(lambda: all(request.reply and not request.in_flight_count for request in requests))
        for number, request in enumerate(requests):
            assert request.reply is not None
            assert (request.reply.status, request.reply.body.split()[0]) == (200, b"%d" % number)
            b.dispatcher.forget(request)
        assert all(not worker.sender._lanes for worker in b.dispatcher.workers)


async def test_one_that_is_withdrawn_does_not_start_or_is_cancelled(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(event.body.decode())
            while not exists("go"):
                await asyncio.sleep(0.005)
    """
    async with bench(tmp_path, handler, policy=ANSWERS) as b:
        b.expect_quick_handlers()
        running, waiting, last = Request(b"running"), Request(b"waiting"), Request(b"last")
        for request in (running, waiting):
            b.dispatcher.submit(request)
        b.dispatcher.dispatch()
        await until(lambda: b.lines() == ["running"])
        b.dispatcher.recall(waiting, cancels=True)
        b.dispatcher.recall(running, cancels=True)
        await until(lambda: not running.in_flight_count and not waiting.in_flight_count)
        assert "nobody waits for it" in running.failure
        (tmp_path / "go").touch()
        b.dispatcher.submit(last)
        b.dispatcher.dispatch()
        await until(lambda: last.reply is not None)
        assert b.lines() == ["running", "last"]
        assert b.dispatcher.workers[0].restarts == 0


def test_lanes_over_one_ledger_overtake_each_other_and_the_commit_waits_for_the_lowest() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), 64)
    even, odd = (PartitionLane(partition, RecordBuffer()) for _ in range(2))
    partition.ledger.add(0, 6)
    even.buffer.append([Record(offset) for offset in (0, 2, 4)])
    odd.buffer.append([Record(offset) for offset in (1, 3, 5)])
    taken = odd.take(3, 1 << 20)
    odd.on_settled(taken)
    assert partition.checkpoint == Checkpoint(0, acked=((1, 2), (3, 4), (5, 6)))
    first = even.take(1, 1 << 20)
    even.on_failed(first, "no", 1)
    even.on_returned(first)
    assert (even.state, odd.state) == (PartitionState.RETURNING, PartitionState.ACTIVE)
    assert partition.checkpoint.attempts == ((0, 1, 1),)
    even.become(PartitionState.ACTIVE)
    for _ in range(3):
        even.on_settled(even.take(1, 1 << 20))
    assert partition.checkpoint == Checkpoint(6)
