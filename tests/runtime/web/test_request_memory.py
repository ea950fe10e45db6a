"""What is kept of requests that aren't answered, and of frames that nobody has taken."""

import pytest
from raw_attacks import frame

from headrace.runtime.web.memory_budget import FrameMemory, MemoryBudget, RequestMemory
from headrace.runtime.web.message_framing import FRAME_OVERHEAD_BYTES

pytestmark = pytest.mark.quick


def test_an_answer_gives_back_what_was_kept_of_its_request() -> None:
    budget: MemoryBudget[str] = MemoryBudget(1000, pytest.fail)
    costs = RequestMemory(budget, "c")
    for byte_count in (10, 0, 30):
        costs.begin(byte_count)
    costs.grow_newest(100)
    assert budget.byte_count == 140
    costs.end_answered(2)
    assert budget.byte_count == 130
    costs.end_answered(0)
    assert (budget.byte_count, len(costs)) == (0, 0)
    costs.grow_newest(100)  # of a body that is read no more
    assert budget.byte_count == 0


def test_what_a_handler_has_taken_of_the_oldest_body_is_its_own() -> None:
    budget: MemoryBudget[str] = MemoryBudget(1000, pytest.fail)
    costs = RequestMemory(budget, "c")
    costs.begin(100)
    costs.begin(7)
    costs.consume_oldest(60, 40)
    assert budget.byte_count == 47
    costs.set_oldest(5)
    assert budget.byte_count == 12
    costs.consume_oldest(1000, 0)
    assert budget.byte_count == 7
    costs.consume_oldest(0, 0)
    assert budget.byte_count == 7


def test_what_bytes_cost_beside_themselves_goes_with_them() -> None:
    budget: MemoryBudget[str] = MemoryBudget(1000, pytest.fail)
    costs = RequestMemory(budget, "c")
    costs.begin(800)  # of a hundred bytes in many chunks
    costs.consume_oldest(75, 25)
    assert budget.byte_count == 200
    costs.consume_oldest(25, 0)
    assert budget.byte_count == 0


def test_who_is_put_out_holds_nothing_of_requests_that_it_still_has() -> None:
    owners: list[RequestMemory[str]] = []
    budget: MemoryBudget[str] = MemoryBudget(100, lambda _: owners[0].forget())
    owners.append(costs := RequestMemory(budget, "c"))
    costs.begin(60)
    costs.begin(60)
    assert (budget.byte_count, len(costs)) == (0, 2)
    costs.end_answered(0)
    assert budget.byte_count == 0


def test_a_frame_is_held_until_it_is_taken_and_fragments_until_their_message_is() -> None:
    budget: MemoryBudget[str] = MemoryBudget(10_000, pytest.fail)
    held = FrameMemory(budget, "c")
    first, ping, second = frame(b"{}"), frame(b"x", 9), frame(bytes(100))
    begin, end = frame(b"[", flags=0), frame(b"]", 0)
    held.feed(first + ping + second[:50])
    held.release_oldest()
    assert budget.byte_count == len(ping) + 50 + 2 * FRAME_OVERHEAD_BYTES
    held.feed(second[50:] + begin + ping)
    held.release_oldest()
    held.release_oldest()
    held.release_oldest()  # the ping amid the fragments, which aiohttp gives before their message
    assert budget.byte_count == len(begin) + FRAME_OVERHEAD_BYTES
    held.feed(end)
    held.release_oldest()
    held.release_oldest()
    assert budget.byte_count == 0
