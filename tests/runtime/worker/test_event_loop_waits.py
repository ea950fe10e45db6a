"""A worker's event loop waits for other threads by a lock, where nothing else can make anything due."""

import asyncio
import contextlib
import random
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_bench import bench, records

from headrace.runtime.worker.api.event_loop import WorkerEventLoop


@pytest.fixture
def loop() -> Iterator[WorkerEventLoop]:
    loop = WorkerEventLoop()
    with contextlib.closing(loop):
        yield loop


def test_it_waits_until_another_thread_makes_something_due(loop: WorkerEventLoop) -> None:
    seen: list[str] = []

    def later() -> None:
        while not loop._bells:
            time.sleep(0.001)
        loop.call_soon_threadsafe(seen.append, "due")

    thread = threading.Thread(target=later)
    thread.start()
    assert loop.wait()
    thread.join()
    assert not loop.wait(), "it has to turn"
    loop.turn()
    assert seen == ["due"]
    assert not loop.ring()


def test_what_is_due_already_and_what_else_may_wake_it_need_a_turn(loop: WorkerEventLoop) -> None:
    loop.call_soon(print)
    assert not loop.wait()
    loop.turn()
    timer = loop.call_later(60, print)
    assert not loop.wait()
    timer.cancel()
    with socket.socket() as one:
        loop.add_reader(one, print)
        assert not loop.wait()
        loop.remove_reader(one)
    loop.add_signal_handler(signal.SIGUSR1, print)
    assert not loop.wait()
    loop.remove_signal_handler(signal.SIGUSR1)
    loop.call_soon(loop.stop)
    loop.turn_until_stopped()


def test_who_rings_as_something_else_is_found_due_is_looked_for_before_a_turn(loop: WorkerEventLoop) -> None:
    """Nothing might end that turn: whoever has rung thinks that the wait is over."""

    class RungMeanwhile(deque[object]):
        def __bool__(self) -> bool:
            assert loop.ring()
            return True

    loop.due = RungMeanwhile()
    assert loop.wait()


def test_no_wait_for_a_timer_is_rounded_up_to_a_millisecond(loop: WorkerEventLoop) -> None:
    """At best: a busy machine makes any of them longer."""

    def waited(seconds: float) -> float:
        began = time.perf_counter()
        loop._selector.select(seconds)  # type: ignore[attr-defined]
        return time.perf_counter() - began

    assert min(waited(0.0001) for _ in range(200)) < 0.0009
    loop.call_soon_threadsafe(int)
    assert waited(60) < 30, "what comes ends it"


def test_a_signal_handler_that_raises_ends_the_wait_and_spoils_no_later_one(loop: WorkerEventLoop) -> None:
    def fail(*_: object) -> None:
        raise TimeoutError("mine")

    before = signal.signal(signal.SIGALRM, fail)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(TimeoutError, match="mine"):
            loop.wait()
    finally:
        signal.signal(signal.SIGALRM, before)
    threading.Timer(0.01, loop.ring).start()
    while loop.wait() and loop._bells:
        pass
    assert not loop.ring()


def test_nothing_is_missed_however_it_comes(loop: WorkerEventLoop) -> None:
    """As the main thread and the link thread do. A wait that is missed would never end."""
    count, came, seen = 20_000, deque[int](), list[int]()

    def bring() -> None:
        for number in range(count):
            came.append(number)
            if not loop.ring() and number % 3:
                loop.call_soon_threadsafe(loop.stop)
            if random.random() < 0.01:
                time.sleep(0)
        while len(seen) < count:
            loop.call_soon_threadsafe(loop.stop)
            time.sleep(0.001)

    thread = threading.Thread(target=bring)
    thread.start()
    while len(seen) < count:
        while came:
            seen.append(came.popleft())
        if len(seen) < count and not came and not loop.wait():
            loop.turn_until_stopped()
    thread.join()
    assert seen == list(range(count))


async def test_what_threads_do_for_a_handler_ends_while_its_worker_idles(tmp_path: Path) -> None:
    handler = """
        kept = []

        async def ask(loop, event):
            write(await loop.run_in_executor(None, lambda: time.sleep(0.2) or event.offset))

        def handler(context, event):
            kept.append(asyncio.get_running_loop().create_task(ask(asyncio.get_running_loop(), event)))
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        while len(b.lines()) < 3:  # nothing else wakes the worker
            await asyncio.sleep(0.01)
        assert sorted(b.lines()) == ["0", "1", "2"]
