"""Time that is reckoned."""

import asyncio
import time

import pytest
from virtual_time import StandstillError, in_virtual_time


def test_an_hour_passes_at_once_and_every_clock_says_so() -> None:
    async def sleep() -> list[float]:
        before, before_ns = time.monotonic(), time.monotonic_ns()
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(1800))
        return [time.monotonic() - before, (time.monotonic_ns() - before_ns) / 1e9]

    began = time.monotonic()
    assert in_virtual_time(sleep) == pytest.approx([3600, 3600], abs=0.001)
    assert time.monotonic() - began < 600


def test_whoever_waits_for_what_nobody_will_do_hears_of_it() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StandstillError):
        in_virtual_time(wait)
