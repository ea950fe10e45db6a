"""What explicitAckMode makes of a handler that returns, and of one that acks."""

from dataclasses import replace
from pathlib import Path

import pytest
from ack_bench import (
    BATCHES,
    DISABLE,
    ENABLE,
    OBEYS,
    ONLY,
    WRITES,
    ack,
    handled,
)
from worker_bench import bench, records, until

from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint


async def test_with_disable_an_explicit_ack_does_nothing_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        import nuclio
        async def handler(context, event):
            write(await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event)))
    """
    async with bench(tmp_path, handler, policy=DISABLE) as b:
        (p,) = b.assign(("t", 3))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert b.lines() == ["False"] * 3
    (line,) = [text for text in caplog.messages if "explicit_ack" in text]
    assert line.startswith("explicit_ack(t/3/0) does nothing")
    assert "explicitAckMode is disable" in line


async def test_an_ack_may_name_its_record_by_the_event(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            assert await context.platform.explicit_ack(event)
    """
    async with bench(tmp_path, handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)


async def test_an_ack_may_call_its_topic_by_another_name_that_the_kind_gives_it(tmp_path: Path) -> None:
    policy = replace(ONLY, topic_aliases={"/": "t"})
    async with bench(tmp_path, WRITES, static=True, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await handled(b, 2)
        assert await ack(b, 0, topic="/") == ["True"]
        assert await ack(b, 1, topic="//") == ["False"]
        assert p.ledger.committable == 1


async def test_with_enable_returning_acks(tmp_path: Path) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ENABLE) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await b.settled(p, 50)


@pytest.mark.parametrize(
    ("kind", "says_no_ack"),
    [
        ("def", "response.ensure_no_ack()"),
        ("async def", "response.ensure_no_ack()"),
        ("async def", "response.headers['X-Nuclio-Stream-No-Ack'] = True"),
        ("def", "response.headers['X-NUCLIO-STREAM-NO-ACK'] = 'true'"),
    ],
)
async def test_with_enable_a_response_may_leave_its_record_to_a_later_ack(
    tmp_path: Path, kind: str, says_no_ack: str
) -> None:
    handler = f"""
{kind} handler(context, event):
    write(event.offset)
    response = nuclio.Response()
    if event.offset in (3, 7):
        {says_no_ack}
    elif event.offset == 4:
        response.headers["x-nuclio-stream-no-ack"] = "false"
    return response
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=ENABLE) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await handled(b, 10)
        assert p.checkpoint == Checkpoint(3, acked=((4, 7), (8, 10)))
        assert p.awaiting_ack == {3, 7}
        assert await ack(b, 7) == ["True"]
        assert p.checkpoint == Checkpoint(3, acked=((4, 10),))
        assert await ack(b, 3) == ["True"]
        assert p.checkpoint == Checkpoint(10)
        assert p.awaiting_ack == set()


async def test_with_explicit_only_returning_never_acks(tmp_path: Path) -> None:
    handler = """
def handler(context, event):
    write(event.offset)
    return [None, nuclio.Response(), "acked", (200, "acked")][event.offset % 4]
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 40))
        await handled(b, 40)
        assert p.checkpoint == Checkpoint(0)
        assert p.unsettled == len(p.awaiting_ack) == 40
        await ack(b, *range(40))
        assert p.checkpoint == Checkpoint(40)


async def test_a_trigger_with_disable_says_so_even_where_another_one_takes_acks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    router = AckRouter()
    handler = """
        import nuclio
        async def handler(context, event):
            write(await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event)))
    """
    async with (
        bench(tmp_path / "one", WRITES, static=True, policy=ONLY, router=router),
        bench(tmp_path / "two", handler, static=True, policy=DISABLE, router=router) as two,
    ):
        (q,) = two.assign(("u", 0))
        two.feed(q, records(0, 1))
        await two.settled(q, 1)
        assert two.lines() == ["False"]
        await until(lambda: "explicit_ack(u/0/0) does nothing" in caplog.text)


async def test_a_batch_may_leave_some_of_its_records_to_later_acks(tmp_path: Path) -> None:
    handler = """
async def handler(context, events):
    responses = []
    for event in events:
        write(event.offset)
        responses.append(nuclio.Response(event_id=event.id))
        if event.offset % 2:
            responses[-1].ensure_no_ack()
    return responses
"""
    async with bench(tmp_path, OBEYS + handler, static=True, policy=BATCHES) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await handled(b, 10)
        await until(lambda: p.awaiting_ack == {1, 3, 5, 7, 9})
        await ack(b, 1, 9)
        assert p.checkpoint.offset == 3
        assert p.awaiting_ack == {3, 5, 7}
