"""Bytes that all hold together, and who has to go."""

import pytest

from headrace.runtime.web.memory_budget import MemoryBudget

pytestmark = pytest.mark.quick


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_held_is_the_sum_and_what_is_given_back_makes_room() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100, pytest.fail)
    budget.add("a", 60)
    budget.add("b", 40)
    budget.release("a", 30)
    budget.add("b", 30)
    assert budget.byte_count == 100
    budget.release_all("b")
    budget.release_all("b")
    budget.release("nobody", 7)
    budget.release("a", 1000)
    assert budget.byte_count == 0


def test_the_slowest_are_put_out_and_small_ones_until_a_quarter_is_free() -> None:
    clock, gone = Clock(), list[str]()
    budget = MemoryBudget(100, gone.append, clock)
    for slow in ("slow", "slower"):
        budget.add(slow, 10)
    budget.release("slow", 1)
    budget.add("slow", 11)
    clock.now = 10.0
    budget.add("quick", 70)
    clock.now = 10.1
    budget.add("new", 5)
    assert gone == ["slower", "slow"]
    assert budget.byte_count == 75


def test_one_that_takes_nearly_all_the_room_stays_where_it_fits() -> None:
    clock, gone = Clock(), list[str]()
    budget = MemoryBudget(100, gone.append, clock)
    budget.add("slow", 10)
    clock.now = 1.0
    budget.add("large", 95)
    assert (gone, budget.byte_count) == (["slow"], 95)


def test_whoever_gives_back_as_it_comes_is_not_slow() -> None:
    clock, gone = Clock(), list[str]()
    budget = MemoryBudget(100, gone.append, clock)
    budget.add("holds", 50)
    for _ in range(10):
        budget.add("passes on", 30)
        clock.now += 1
        budget.release("passes on", 30)
    budget.add("passes on", 30)
    budget.add("new", 30)
    assert gone == ["holds"]


def test_one_that_is_alone_and_holds_too_much_goes() -> None:
    gone = list[str]()
    budget = MemoryBudget(100, gone.append)
    budget.add("a", 101)
    assert gone == ["a"]
    assert budget.byte_count == 0
