"""Explicit acks of records that fail."""

from dataclasses import replace
from pathlib import Path

import pytest
from failure_bench import attempts_at, journal_of, order, policy
from worker_bench import Record, bench, records, until

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy, FailurePolicy, Then
from headrace.runtime.partitions.state import PartitionState


def acks(then: Then = "halt") -> DeliveryPolicy:
    return policy(then, ack_mode=AckMode.ENABLE)


async def test_a_record_that_was_acked_before_it_failed_is_not_tried_again(tmp_path: Path) -> None:
    handler = """
        import nuclio_sdk
        async def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.offset == 5:
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
                raise ValueError("too late")
    """
    async with bench(tmp_path, handler, policy=acks(), static=True) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await b.settled(p, 50)
        assert order(b) == list(range(50))
        assert attempts_at(b, 5) == [1]


@pytest.mark.parametrize(
    "hold", [PartitionState.BACKOFF, PartitionState.HALTED, PartitionState.WRITING_DEAD_LETTER]
)
async def test_a_failed_record_that_is_acked_elsewhere_is_not_tried_again(
    tmp_path: Path, hold: PartitionState
) -> None:
    handler = """
        import nuclio_sdk
        async def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.shard_id == 1:
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset("t", 0, 5))
            elif event.offset == 5:
                raise ValueError("never")
    """
    waits = FailurePolicy(60 if hold is PartitionState.BACKOFF else 1, 600, 600, dead_letter_topic="dlq")
    waits = replace(waits, max_attempts=4 if hold is PartitionState.BACKOFF else 1)
    waits = replace(waits, then="deadLetter" if hold is PartitionState.WRITING_DEAD_LETTER else "halt")
    async with bench(tmp_path, handler, policy=replace(acks(), failure=waits), static=True) as b:
        journal = journal_of(b)
        journal.refusal = OSError("away") if hold is PartitionState.WRITING_DEAD_LETTER else None
        bad, other = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 10))
        await until(lambda: bad.lane.state is hold)
        b.feed(other, records(0, 1))
        await b.settled(bad, 10)
        assert attempts_at(b, 5) == [1]
        assert order(b) == list(range(10))


@pytest.mark.parametrize("is_too_large", [False, True])
async def test_an_ack_of_another_record_does_not_stir_the_failed_one(
    tmp_path: Path, is_too_large: bool
) -> None:
    handler = """
        import nuclio_sdk
        async def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.shard_id == 1:
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset("t", 0, 7))
            elif event.offset == 5:
                raise ValueError("never")
    """
    last = policy("deadLetter", attempts=1, ack_mode=AckMode.ENABLE, fetch_max_bytes=100)
    async with bench(tmp_path, handler, policy=last, static=True) as b:
        journal = journal_of(b)
        journal.gate.clear()
        bad, other = b.assign(("t", 0), ("t", 1))
        b.feed(bad, [Record(n, b"." * (101 if n == 5 and is_too_large else 1)) for n in range(10)])
        await until(lambda: journal.dead_letters)
        b.feed(other, records(0, 1))
        await b.settled(other, 1)
        await until(lambda: bad.ledger.is_settled(7))
        assert bad.lane.state is PartitionState.WRITING_DEAD_LETTER
        journal.gate.set()
        await b.settled(bad, 10)
        assert len(journal.dead_letters) == 1
        assert order(b) == [n for n in range(10) if n != 7 and not (n == 5 and is_too_large)]
