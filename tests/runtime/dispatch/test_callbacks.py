"""Drain and termination callbacks, on real workers."""

import textwrap
from pathlib import Path

import pytest
from worker_bench import bench, records, until


@pytest.mark.parametrize("callback", ["def on_drain(): ...", "async def on_drain(): await asyncio.sleep(0)"])
@pytest.mark.parametrize(
    "handler",
    [
        """
        def handler(context, event):
            write("in", "in")
            while not exists("drained"):
                sum(range(1000))
        """,
        """
        async def handler(context, event):
            write("in", "in")
            while not exists("drained"):
                await asyncio.sleep(0.005)
        """,
    ],
    ids=["sync", "async"],
)
async def test_drain_callbacks_run_while_their_handlers_run(
    tmp_path: Path, handler: str, callback: str
) -> None:
    source = textwrap.dedent(handler) + textwrap.dedent(
        f"""
        {callback.replace("...", "write(1, 'drained')").replace("sleep(0)", "sleep(0); write(1, 'drained')")}
        def init_context(context):
            context.platform.set_drain_callback(on_drain)
        """
    )
    async with bench(tmp_path, source) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await until(lambda: b.lines("in"))
        await b.dispatcher.revoke([p], 600)
        await until(lambda: b.lines("drained") == ["1"])
        assert p.ledger.committable == 1
        assert b.dispatcher.workers[0].restarts == 0


async def test_a_stop_calls_termination_callbacks_and_waits_for_them(tmp_path: Path) -> None:
    handler = """
        def handler(context, event): ...
        async def on_signal():
            await asyncio.sleep(0.05)
            write("signalled")
        def init_context(context):
            context.platform.on_signal(on_signal)
    """
    async with bench(tmp_path, handler, workers=2) as b:
        b.dispatcher.announce_stop()
        await b.dispatcher.stop(20)
        assert b.lines() == ["signalled"] * 2


async def test_a_callback_that_raises_is_logged_and_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def handler(context, event): ...
        def on_drain():
            raise ValueError("no way")
        def init_context(context):
            context.platform.set_drain_callback(on_drain)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        await b.dispatcher.revoke([p], 10)
        await until(lambda: "drain callback raised" in caplog.text)
        (q,) = b.assign(("t", 0), start=2)
        b.feed(q, records(2, 2))
        await b.settled(q, 4)
