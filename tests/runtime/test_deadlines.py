"""Waits under one timer."""

import asyncio

from worker_bench import until

from headrace.runtime.deadlines import Deadlines


async def test_each_is_late_in_its_turn_but_what_has_left() -> None:
    late: list[str] = []
    waits = Deadlines(0.02, late.append)
    for waiter in ("first", "second", "third"):
        waits.add(waiter)
    assert waits.discard("second")
    await until(lambda: late == ["first", "third"])
    assert not waits
    assert not waits.discard("first")


async def test_one_that_begins_anew_is_behind_all_others() -> None:
    late: list[str] = []
    waits = Deadlines(0.02, late.append)
    for waiter in ("first", "second", "first"):
        waits.add(waiter)
    assert list(waits) == ["second", "first"]
    await until(lambda: late == ["second", "first"])


async def test_the_timer_goes_on_for_those_that_came_later() -> None:
    late: list[str] = []
    waits = Deadlines(0.02, late.append)
    waits.add("first")
    await asyncio.sleep(0)  # another turn of the event loop: a later deadline
    waits.add("second")
    await until(lambda: late == ["first", "second"])
    waits.add("third")
    await until(lambda: late[2:] == ["third"])
