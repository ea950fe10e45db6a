"""A trigger that waits for its broker says what it waits for: once, until it is something else."""

import asyncio
import logging
from pathlib import Path

import pytest
from kafka_settings import loaded
from strangers import closing, silent, stranger

from headrace.runtime.kafka import guarded_connections
from headrace.triggers.kafka.client import connect as connecting


async def test_what_is_waited_for_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(guarded_connections, "FIRST_ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(connecting, "_RECONNECT_SECONDS", 0.01)
    away: list[str] = []
    thrice = asyncio.Event()

    def on_away(why: str) -> None:
        away.append(why)
        if len(away) == 3:
            thrice.set()

    async with stranger(silent) as mute, stranger(closing) as rude:
        settings = loaded(tmp_path, {"brokers": [mute, rude]})
        waiting = asyncio.create_task(connecting.connect(settings, "test", on_away))
        await thrice.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(set(away)) == 1, "whatever address was tried first"
        assert f"{mute} accepts connections and does not speak Kafka" in away[0]
        assert f"{rude} closes connections without an answer" in away[0]
        assert "check the address, or set tls.enable" in away[0]
    said = [
        it.getMessage()
        for it in caplog.records
        if it.name.startswith("headrace") and it.levelno > logging.INFO
    ]
    assert said == [f"{away[0]}; trying again every 0.01 s"]
