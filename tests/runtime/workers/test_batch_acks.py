"""Explicit acks of records in a batch."""

from pathlib import Path

from batch_bench import SEES, batch_bench, fresh
from worker_bench import kill_worker, until

from headrace.runtime.config.delivery_policy import AckMode
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.wire.outcomes import Ack


async def test_an_ack_inside_the_handler_counts_before_it_returns(tmp_path: Path) -> None:
    handler = """
        import nuclio_sdk
        def handler(context, events):
            see(events)
            ack = context.platform.explicit_ack
            for event in events[::2]:
                asyncio.get_event_loop().run_until_complete(ack(nuclio_sdk.QualifiedOffset.from_event(event)))
            wait_for("go")
    """
    async with batch_bench(tmp_path, handler, size=6, ack_mode=AckMode.EXPLICIT_ONLY, static=True) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(6, p)
        await until(lambda: p.ledger.settled_spans() == [(2, 3), (4, 5)])
        assert p.ledger.committable == 1
        kill_worker(b.bench)
        (tmp_path / "go").touch()
        await until(lambda: p.awaiting_ack == {3})
        assert b.offsets == [[0, 1, 2, 3, 4, 5], [1, 3, 5]]
        b.bench.dispatcher._router.route(Ack("t", 0, 3, is_through=False), b.bench.dispatcher._acks)
        assert p.checkpoint == Checkpoint(6)


async def test_a_response_that_says_no_ack_leaves_its_record_open(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            see(events)
            responses = [context.Response(event_id=event.id) for event in events]
            responses[1].ensure_no_ack()
            return responses
    """
    async with batch_bench(tmp_path, handler, size=3, ack_mode=AckMode.ENABLE, static=True) as b:
        (p,) = b.assign(*fresh(1))
        b.feed(6, p)
        await until(lambda: len(b.seen) == 2 and not p.lane.in_flight_count)
        assert p.awaiting_ack == {1, 4}
        assert p.checkpoint == Checkpoint(1, acked=((2, 4), (5, 6)))
        b.bench.dispatcher._router.route(Ack("t", 0, 4, is_through=True), b.bench.dispatcher._acks)
        assert p.checkpoint == Checkpoint(6)


async def test_what_is_acked_while_its_plan_is_committed_is_left_out_and_the_rest_goes_on(
    tmp_path: Path,
) -> None:
    async with batch_bench(tmp_path, SEES, size=3, workers=2, ack_mode=AckMode.ENABLE) as b:
        b.source.may_answer.clear()
        (p,) = b.assign(*fresh(1))
        b.feed(6, p)
        await until(lambda: b.source.commits)
        for offset in range(3):
            b.bench.dispatcher._router.route(Ack("t", 0, offset, is_through=False), b.bench.dispatcher._acks)
        b.source.may_answer.set()
        await b.settled(6, p)
        assert b.offsets == [[3, 4, 5]]


async def test_all_unacked_a_partition_gets_what_may_bring_the_acks(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=4, ack_mode=AckMode.EXPLICIT_ONLY, static=True) as b:
        (p,) = b.assign(*fresh(1), capacity=8)
        b.feed(6, p)  # more than half of what it may hold: it gets no more before something is settled
        await until(lambda: len(p.awaiting_ack) == 6)
        assert b.offsets == [[0, 1, 2, 3], [4, 5]]
        assert p.to_fetch == 2
