"""Ending Spark sessions on a server that doesn't answer: each in its time, however many there are."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.runtime.spark.sessions import SparkSessionError, interrupt

SESSIONS = 12


async def test_a_hung_server_and_a_pool_without_a_free_thread_delay_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.runtime.spark.sessions._SECONDS", 0.3)
    freed = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    taken = loop.run_in_executor(None, freed.wait)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as hung:  # connects, and says nothing
        url = f"sc://127.0.0.1:{hung.getsockname()[1]}"
        ends = [interrupt(url, f"session-{number}") for number in range(SESSIONS)]
        try:
            async with asyncio.timeout(60):
                results = await asyncio.gather(*ends, return_exceptions=True)
        finally:
            freed.set()
            await taken
    assert [type(result) for result in results] == [SparkSessionError] * SESSIONS


async def test_an_end_is_not_waited_for_beyond_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = threading.Event()
    monkeypatch.setattr("headrace.runtime.spark.sessions._end", lambda *_: freed.wait())
    monkeypatch.setattr("headrace.runtime.spark.sessions._SECONDS", 0.05)
    monkeypatch.setattr("headrace.runtime.spark.sessions._MARGIN_SECONDS", 0.05)
    with pytest.raises(SparkSessionError, match="Spark at h:7 did not end session s: it does not answer"):
        await interrupt("sc://h:7", "s")
    freed.set()
