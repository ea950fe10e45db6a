"""Acks of what this replica does not own, or of what does not exist."""

from pathlib import Path

import pytest
from ack_bench import (
    ENABLE,
    ONLY,
    WRITES,
    ack,
    handled,
)
from worker_bench import Bench, bench, records, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint


async def test_an_ack_elsewhere_is_false_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        assert await ack(b, 0) == ["False"]
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await handled(b, 2)
        assert await ack(b, 0, partition=1) == ["False"]
        assert await ack(b, 0, topic="u") == ["False"]
        assert await ack(b, 1) == ["True"]
        await b.dispatcher.revoke([p], 10)
        b.dispatcher.on_revoked(None)
        pid = b.dispatcher.workers[0].pid
        await until(lambda: answers_false(b))
        assert p.checkpoint == Checkpoint(0, acked=((1, 2),))
        assert pid == b.dispatcher.workers[0].pid
    assert "error" not in {record.levelname.lower() for record in caplog.records}


def answers_false(b: Bench) -> bool:
    """Whether the last ack that was asked for got that answer; if not, ask again."""
    asked = len((b.folder / "todo").read_text().splitlines())
    if len(b.lines("done")) < asked:
        return False
    if b.lines("done")[-1] == "False" and asked > 4:
        return True
    with (b.folder / "todo").open("a") as todo:
        todo.write("explicit_ack t 0 0\n")
    return False


async def test_an_ack_that_crosses_a_revoke_is_refused_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        import nuclio, threading
        def later(context, event):
            wait_for("ack")
            write(asyncio.run(context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event))))
        def handler(context, event):
            threading.Thread(target=later, args=(context, event)).start()
    """
    async with bench(tmp_path, handler, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(lambda: p.awaiting_ack)
        await b.dispatcher.revoke([p], 10)
        (tmp_path / "ack").touch()
        while not b.lines():  # the loop does not turn: the worker can't know yet, nor the processor
            pass
        assert b.lines() == ["True"]
        b.dispatcher.on_revoked(None)
        await until(lambda: "an ack of t/0 offset 0 is refused" in caplog.text)
        assert p.checkpoint == Checkpoint(0)


@pytest.mark.parametrize("verb", ["explicit_ack", "explicit_ack_through"])
@pytest.mark.parametrize("policy", [ENABLE, ONLY], ids=["enable", "explicitOnly"])
async def test_an_ack_beyond_the_end_is_refused_and_costs_no_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, verb: str, policy: DeliveryPolicy
) -> None:
    handler = f"""
        import nuclio
        async def handler(context, event):
            write(event.offset)
            if event.offset == 300:
                assert await context.platform.{verb}(nuclio.QualifiedOffset("t", 0, 325))
    """
    async with bench(tmp_path, handler, static=True, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 300))
        await handled(b, 300)
        b.feed(p, records(300, 20))
        await handled(b, 320)
        assert "an ack of t/0 offset 325 is refused: the partition ends at 320" in caplog.text
        assert p.ledger.committable == (320 if policy is ENABLE else 0)
        b.feed(p, records(320, 10))
        await handled(b, 330)
        assert b.lines() == [str(offset) for offset in range(330)]
        assert p.checkpoint.acked == ()


async def test_an_offset_that_cannot_be_is_refused_and_raises_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, WRITES, static=True, policy=ONLY) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await handled(b, 2)
        assert await ack(b, -1, 2**70, -(2**70)) == ["True"] * 3
        assert caplog.text.count("is refused: the partition ends at 2") == 3
        assert p.checkpoint == Checkpoint(0)
