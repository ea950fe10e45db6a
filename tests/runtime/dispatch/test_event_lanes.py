"""Events without a partition: recalled, cut short, put again; by real workers."""

from dataclasses import replace
from pathlib import Path

from worker_bench import QUICK, QUICK_RETRIES, Bench, Record, bench, kill_worker, until

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import CutShort, EventLane
from headrace.runtime.wire.records import WireRecord

REPORTS = replace(QUICK, failure=replace(QUICK_RETRIES, max_attempts=1, then="report"))


class Event(EventLane):
    """One that keeps what it is told."""

    def __init__(self, value: bytes) -> None:
        super().__init__(PartitionKey("test:events", 0))
        self.put(Record(0, value))
        self.told: list[str] = []

    def on_cut_short(self, why: CutShort) -> None:
        self.told.append(why)

    def on_ended(self, failure: str | None) -> None:
        self.told.append("succeeded" if failure is None else failure.splitlines()[-1])

    def on_came_back(self, record: WireRecord) -> None:
        self.told.append("came back")


def submit(b: Bench, *events: Event) -> None:
    for event in events:
        b.dispatcher.submit(event)
    b.dispatcher.dispatch()


WAITS = """
    def handler(context, event):
        write(event.body.decode())
        wait_for("go")
"""


async def test_a_recall_brings_back_what_waits_and_leaves_what_runs(tmp_path: Path) -> None:
    async with bench(tmp_path, WAITS, policy=REPORTS) as b:
        b.expect_quick_handlers()
        running, waiting = Event(b"running"), Event(b"waiting")
        submit(b, running, waiting)
        await until(lambda: b.lines() == ["running"])
        for event in (running, waiting):
            b.dispatcher.recall(event)
        await until(lambda: waiting.told == ["came back"])
        (tmp_path / "go").touch()
        await until(lambda: running.told == ["succeeded"])
        assert b.lines() == ["running"]


async def test_one_that_is_put_again_after_its_failure_is_delivered_again(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.body.decode()} {event.attempt}")
            if event.attempt == 1:
                raise ValueError("not yet")
    """
    async with bench(tmp_path, handler, policy=REPORTS) as b:
        event = Event(b"x")
        submit(b, event)
        await until(lambda: event.told == ["ValueError: not yet"])
        event.attempts = 2
        event.put(Record(0, b"x"))
        submit(b, event)
        await until(lambda: event.told[1:] == ["succeeded"])
        assert b.lines() == ["x 1", "x 2"]


async def test_one_whose_worker_dies_is_told_so_before_it_fails(tmp_path: Path) -> None:
    async with bench(tmp_path, WAITS, policy=REPORTS) as b:
        event = Event(b"x")
        submit(b, event)
        await until(lambda: b.lines() == ["x"])
        kill_worker(b)
        await until(lambda: len(event.told) == 2)
        assert event.told[0] == "died"
        assert "died while running it" in event.told[1]


async def test_one_that_runs_past_its_time_is_told_so_before_it_fails(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            await asyncio.sleep(300)
    """
    async with bench(tmp_path, handler, policy=replace(REPORTS, event_timeout_seconds=0.1)) as b:
        event = Event(b"x")
        submit(b, event)
        await until(lambda: len(event.told) == 2)
        assert event.told[0] == "late"


async def test_one_that_is_dropped_while_it_waits_never_starts(tmp_path: Path) -> None:
    async with bench(tmp_path, WAITS, policy=REPORTS) as b:
        running, dropped, last = Event(b"running"), Event(b"dropped"), Event(b"last")
        submit(b, running)
        await until(lambda: b.lines() == ["running"])
        b.dispatcher.submit(dropped)
        b.dispatcher.submit(last)
        assert dropped.drop()
        assert not running.drop()
        (tmp_path / "go").touch()
        b.dispatcher.dispatch()
        await until(lambda: last.told == ["succeeded"])
        assert (b.lines(), dropped.told) == (["running", "last"], [])
