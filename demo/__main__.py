"""`make demo`: orders through the ready-made Spark pipeline, on a real Kafka and a real Spark.

A second replica joins midway, a worker is killed; in the end the sinks hold what was produced, once.
DEMO_RECORDS and DEMO_SECONDS make it smaller; the page with the plots is .demo/report.html.
"""

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

from orders import PARTITIONS, TOPIC, Orders
from replicas import FUNCTION, Replica
from report import write_page
from screen import Screen
from sinks import Sinks
from timeline import History, Moment, Sample

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.embedded.java import find_java
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.spark.server import SparkServer
from headrace.runtime.errors import HeadraceError, UsageError
from headrace.runtime.processes import stop_signals
from headrace.runtime.tasks import task_group

RECORDS = int(os.environ.get("DEMO_RECORDS", "200000"))
SECONDS = float(os.environ.get("DEMO_SECONDS", "30"))
JOIN_AT, KILL_AT = 0.2, 0.7  # shares of the orders
# Shares that may be produced until the first replica has handled an order, until the second has joined,
# and until that one has handled an order.
FIRST, UNTIL_JOINED, UNTIL_SHARED = 0.02, 0.5, 0.65
LEAST_SHARE = 0.1
STALL_SECONDS = 300
NEEDED_BYTES = 1_000_000_000
KEPT = Path(os.environ.get("DEMO_FOLDER", ".demo")).absolute()


class Demo:
    """The demo's course of events. Runs once; raises HeadraceError if it can't go on."""

    def __init__(self, screen: Screen, orders: Orders, sinks: Sinks, replicas: list[Replica]) -> None:
        self._screen = screen
        self._orders = orders
        self._sinks = sinks
        self._replicas = replicas
        self._names = [replica.name for replica in replicas]
        self._history = History()

    async def run(self, bootstrap: str) -> bool:
        """Run the demo; return whether the sinks hold what was produced and both replicas had their share."""
        try:
            async with task_group(HeadraceError) as tasks:
                await self._start(tasks, self._replicas[0])
                producing = tasks.create_task(self._orders.produce(bootstrap))
                await self._begin()
                with self._screen.bars(self._orders.count, self._names):
                    playing = tasks.create_task(self._play(tasks))
                    await self._watch(producing, playing)
                self._screen.say("stopping both replicas")
                for replica in self._replicas:
                    replica.stop()
        finally:
            for replica in self._replicas:
                replica.kill()
        return self._report()

    async def _start(self, tasks: asyncio.TaskGroup, replica: Replica) -> None:
        self._screen.say(f"{replica.name} starts, with two workers; its log is {replica.log}")
        tasks.create_task(replica.run())
        await replica.until_joined()

    async def _begin(self) -> None:
        """Wait for the first order that is handled; time is counted from there."""
        self._screen.say("the first orders go through Spark, which is slow until it is warm")
        await self._orders.allow(FIRST)
        try:
            async with asyncio.timeout(STALL_SECONDS):
                await self._replicas[0].until_handled()
        except TimeoutError:
            raise HeadraceError(f"no order was handled in {STALL_SECONDS} s; see {KEPT}") from None
        self._history = History()

    async def _play(self, tasks: asyncio.TaskGroup) -> None:
        """Have the second replica join and a worker killed, each as soon as what it needs is there."""
        first, second = self._replicas
        await self._orders.allow(UNTIL_JOINED)
        await self._orders.until_acked(JOIN_AT)
        await self._start(tasks, second)
        self._note(f"{second.name} joined", f"{first.name} has handled {first.handled:,} orders")
        await self._orders.allow(UNTIL_SHARED)
        await second.until_handled()
        await self._orders.allow(1)
        await self._orders.until_acked(KILL_AT)
        count = await first.kill_worker()
        self._note(
            f"kill -9: a worker of {first.name} with {count:,} orders",
            f"{second.name} has handled {second.handled:,}",
        )

    def _note(self, text: str, so_far: str) -> None:
        self._history.moments.append(Moment(self._history.seconds, text))
        self._screen.say(f"{text}; {so_far}")

    async def _watch(self, *tasks: asyncio.Task[None]) -> None:
        """Take a sample each second, until everything is in the sinks or nothing has moved for long."""
        while True:
            await asyncio.sleep(1)
            sample = await self._sample()
            self._history.samples.append(sample)
            self._screen.show(sample)
            if all(task.done() for task in tasks) and sample.stored >= len(self._orders.acked):
                return
            if self._history.still_seconds() > STALL_SECONDS:
                raise HeadraceError(f"nothing has come into the sinks for {STALL_SECONDS} s; see {KEPT}")

    async def _sample(self) -> Sample:
        await asyncio.gather(*(replica.update() for replica in self._replicas))
        handled = {replica.name: replica.handled for replica in self._replicas}
        return Sample(self._history.seconds, len(self._orders.acked), self._sinks.count(), handled)

    def _report(self) -> bool:
        """Print the result and write the page; return whether it is as it should be."""
        comparison, totals = self._sinks.compare(self._orders), self._sinks.totals()
        least = min(replica.handled for replica in self._replicas)
        shares = ", ".join(f"{replica.name} handled {replica.handled:,}" for replica in self._replicas)
        most_behind = max(sample.lag for sample in self._history.samples)
        seconds = self._history.samples[-1].seconds
        is_proven = comparison.is_equal and comparison.produced == RECORDS and least >= LEAST_SHARE * RECORDS
        lines = [
            f"{shares}; at most {most_behind:,} orders behind, all in the sinks after {seconds:.0f} s",
            f"{comparison}: {'as it should be' if is_proven else 'NOT as it should be'}",
        ]
        page = KEPT / "report.html"
        page.write_text(write_page(self._history, self._names, totals, lines))
        self._screen.table(totals)
        self._screen.say(f"plots: {page}")
        for line in lines:
            self._screen.say(line)
        return is_proven


async def demonstrate(screen: Screen, folder: Path) -> bool:
    """Start Kafka, Spark and the demo. All of it has ended when this returns, after Ctrl-C too."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for signum in stop_signals():  # once: a second cancellation would interrupt the cleanup
        loop.add_signal_handler(signum, lambda: task.cancelling() or task.cancel())
    find_java()
    if shutil.disk_usage(folder).free < NEEDED_BYTES:
        raise UsageError(f"less than {NEEDED_BYTES / 1e9:g} GB free in {folder}; make room or set TMPDIR")
    screen.say("starting Kafka (the first time, 43 MB are downloaded)")
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({TOPIC: PARTITIONS})
        screen.say(f"Kafka is at {kafka.bootstrap}; starting Spark (the first time, 11 MB are downloaded)")
        async with SparkServer([load_function(FUNCTION)]) as spark:
            names = ("replica-A", "replica-B")
            replicas = [Replica(name, kafka.bootstrap, folder, KEPT, spark.link) for name in names]
            demo = Demo(screen, Orders(RECORDS, SECONDS), Sinks(folder), replicas)
            return await demo.run(kafka.bootstrap)


def main() -> int:
    """Return the exit code: 0 if the result is as it should be, 1 if not, 130 after Ctrl-C."""
    screen = Screen()
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        KEPT.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder:
            os.chdir(folder)  # function.yaml names the sinks by relative paths
            return 0 if asyncio.run(demonstrate(screen, Path(folder))) else 1
    except HeadraceError as error:
        screen.say(f"demo: {error}")
        return error.exit_code
    except asyncio.CancelledError:
        screen.say("demo: stopped; nothing of it runs any more")
        return 130


if __name__ == "__main__":
    sys.exit(main())
