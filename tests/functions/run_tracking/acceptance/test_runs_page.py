"""The page, in a real browser: what people have called their runs is text there."""

import asyncio
from pathlib import Path

import aiohttp
from broker import Broker
from browser import browse, browser
from replica import wait_until
from run_clients import RunClient
from run_ledgers import RunLedger
from run_tracking_scene import Scene

HOSTILE = "<img src=x onerror=document.title='run'><script>document.title='run'</script>"


async def log(scene: Scene) -> None:
    ledger = RunLedger("hostile", 20, 1)
    async with aiohttp.ClientSession() as session:
        client = RunClient(session, scene.frontier, ledger)
        await client.send(
            [
                {"type": "create_run"},
                {"type": "set_run_property", "name": HOSTILE, "experiment": HOSTILE},
                {"type": "log_hparams", "value": {HOSTILE: HOSTILE}},
                {"type": "add_tag", "tag_name": HOSTILE},
                {
                    "type": "log_metric",
                    "name": HOSTILE,
                    "value": 1.0,
                    "step": 0,
                    "context": {HOSTILE: HOSTILE},
                },
                {"type": "log_metric", "name": HOSTILE, "value": float("nan"), "step": 1},
                {"type": "log_terminal_line", "line": HOSTILE, "step": 0},
                {"type": "log_record", "message": HOSTILE, "level": 20, "timestamp": 1.0},
                {"type": "finish_run"},
            ]
        )


async def test_hostile_names_are_text(broker: Broker, tmp_path: Path) -> None:
    browser()
    scene = Scene(broker, f"sqlite:///{tmp_path / 'runs.sqlite'}", tmp_path)
    with scene.function() as running:
        await asyncio.to_thread(running.wait_ready)
        await log(scene)
        await asyncio.to_thread(wait_until, lambda: "hostile" in scene.finished(), about=running)
        options = ("--virtual-time-budget=8000", "--dump-dom")
        dom = await asyncio.to_thread(browse, scene.backend, *options)
        assert running.stop() == 0
    assert "<title>Runs</title>" in dom
    assert "<img" not in dom
    escaped = HOSTILE.replace("<", "&lt;").replace(">", "&gt;")
    assert dom.count(escaped) >= 7
    assert "<path" in dom
