"""Bytes that all hold together, and who has to go."""

import pytest

from headrace.runtime.web.memory_budget import MemoryBudget

pytestmark = pytest.mark.quick


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_held_is_the_sum_and_what_is_given_back_makes_room() -> None:
    room: MemoryBudget[str] = MemoryBudget(100, pytest.fail)
    room.hold("a", 60)
    room.hold("b", 40)
    room.give_back("a", 30)
    room.hold("b", 30)
    assert room.byte_count == 100
    room.give_all_back("b")
    room.give_all_back("b")
    room.give_back("nobody", 7)
    room.give_back("a", 1000)
    assert room.byte_count == 0


def test_the_slowest_are_put_out_and_small_ones_until_a_quarter_is_free() -> None:
    clock, gone = Clock(), list[str]()
    room = MemoryBudget(100, gone.append, clock)
    for slow in ("slow", "slower"):
        room.hold(slow, 10)
    room.give_back("slow", 1)
    room.hold("slow", 11)
    clock.now = 10.0
    room.hold("quick", 70)
    clock.now = 10.1
    room.hold("new", 5)
    assert gone == ["slower", "slow"]
    assert room.byte_count == 75


def test_one_that_takes_nearly_all_the_room_stays_where_it_fits() -> None:
    clock, gone = Clock(), list[str]()
    room = MemoryBudget(100, gone.append, clock)
    room.hold("slow", 10)
    clock.now = 1.0
    room.hold("large", 95)
    assert (gone, room.byte_count) == (["slow"], 95)


def test_whoever_gives_back_as_it_comes_is_not_slow() -> None:
    clock, gone = Clock(), list[str]()
    room = MemoryBudget(100, gone.append, clock)
    room.hold("holds", 50)
    for _ in range(10):
        room.hold("passes on", 30)
        clock.now += 1
        room.give_back("passes on", 30)
    room.hold("passes on", 30)
    room.hold("new", 30)
    assert gone == ["holds"]


def test_one_that_is_alone_and_holds_too_much_goes() -> None:
    gone = list[str]()
    room = MemoryBudget(100, gone.append)
    room.hold("a", 101)
    assert gone == ["a"]
    assert room.byte_count == 0
