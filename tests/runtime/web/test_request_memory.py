"""What is kept of requests that aren't answered, and of frames that nobody has taken."""

import pytest
from raw_attacks import frame

from headrace.runtime.web.memory_budget import FrameMemory, MemoryBudget, RequestMemory
from headrace.runtime.web.message_framing import FRAME_OVERHEAD_BYTES

pytestmark = pytest.mark.quick


def test_an_answer_gives_back_what_was_kept_of_its_request() -> None:
    room: MemoryBudget[str] = MemoryBudget(1000, pytest.fail)
    costs = RequestMemory(room, "c")
    for byte_count in (10, 0, 30):
        costs.begin(byte_count)
    costs.grow(100)
    assert room.byte_count == 140
    costs.end(2)
    assert room.byte_count == 130
    costs.end(0)
    assert (room.byte_count, len(costs)) == (0, 0)
    costs.grow(100)  # of a body that is read no more
    assert room.byte_count == 0


def test_what_a_handler_has_taken_of_the_oldest_body_is_its_own() -> None:
    room: MemoryBudget[str] = MemoryBudget(1000, pytest.fail)
    costs = RequestMemory(room, "c")
    costs.begin(100)
    costs.begin(7)
    costs.take(60, 40)
    assert room.byte_count == 47
    costs.is_now(5)
    assert room.byte_count == 12
    costs.take(1000, 0)
    assert room.byte_count == 7
    costs.take(0, 0)
    assert room.byte_count == 7


def test_what_bytes_cost_beside_themselves_goes_with_them() -> None:
    room: MemoryBudget[str] = MemoryBudget(1000, pytest.fail)
    costs = RequestMemory(room, "c")
    costs.begin(800)  # of a hundred bytes in many chunks
    costs.take(75, 25)
    assert room.byte_count == 200
    costs.take(25, 0)
    assert room.byte_count == 0


def test_who_is_put_out_holds_nothing_of_requests_that_it_still_has() -> None:
    rooms: list[RequestMemory[str]] = []
    room: MemoryBudget[str] = MemoryBudget(100, lambda _: rooms[0].forget())
    rooms.append(costs := RequestMemory(room, "c"))
    costs.begin(60)
    costs.begin(60)
    assert (room.byte_count, len(costs)) == (0, 2)
    costs.end(0)
    assert room.byte_count == 0


def test_a_frame_is_held_until_it_is_taken_and_fragments_until_their_message_is() -> None:
    room: MemoryBudget[str] = MemoryBudget(10_000, pytest.fail)
    held = FrameMemory(room, "c")
    first, ping, second = frame(b"{}"), frame(b"x", 9), frame(bytes(100))
    begin, end = frame(b"[", flags=0), frame(b"]", 0)
    held.feed(first + ping + second[:50])
    held.take()
    assert room.byte_count == len(ping) + 50 + 2 * FRAME_OVERHEAD_BYTES
    held.feed(second[50:] + begin + ping)
    held.take()
    held.take()
    held.take()  # the ping amid the fragments, which aiohttp gives before their message
    assert room.byte_count == len(begin) + FRAME_OVERHEAD_BYTES
    held.feed(end)
    held.take()
    held.take()
    assert room.byte_count == 0
