"""`make storm`: kill -9 around a Spark server, and what it cost.

replica  one of two replicas that share the server dies in a long job, which must be over before its successor
worker   a worker dies in the middle of a long job: how long Spark still lists it, and what it still burns
server   the server itself dies under load: how long until batches are written again

usage: spark_kills.py [replica|worker|server] [--count N] [--seed N]
"""

import asyncio
import functools
import json
import os
import random
import signal
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset
from broker import Broker
from kafka_records import Feed, produce
from replica import Replica, lines, replica, set_trigger, wait_until
from scenario import Report, main
from spark import QUICK, OwnSpark, SharedSpark, is_closed, running_spark, use_spark, write_spark_function

from headrace.runtime.embedded.ports import free_port

# A batch is a job that burns, where it has to, and that says itself, by _SUCCESS, when it was committed.
WRITES = """
    import json
    import uuid
    from headrace.functions.spark import events_to_dataframe, write_parquet

    def handler(context, events):
        spark, job, processor = context.spark, str(uuid.uuid4()), os.getppid()
        burning = 10**10 if exists(f"burn-{processor}") else 1
        parts = {}
        for event in events:
            first, _ = parts.get(event.shard_id, (event.offset, 0))
            parts[event.shard_id] = first, event.offset + 1
        told = {"name": job, "session": spark.session_id, "processor": processor, "is_long": burning > 1}
        write(json.dumps({**told, "parts": list(parts.items()), "begun_at": time.time()}), "begun")
        rows = events_to_dataframe(spark, events).select("topic", "partition", "offset")
        burnt = spark.range(burning).selectExpr("max(hash(id)) AS burnt")
        rows.crossJoin(burnt).write.parquet(f"{FOLDER}/jobs/{job}")
        write_parquet(rows, FOLDER / "rows", events)
        write(f"{job} {time.time()}", "ended")
"""
BURNS = """
    def handler(context, event):
        if exists("burns"):
            return write("again")
        spark = context.spark
        spark.range(1).count()
        write("", "burns")
        spark.range(10**13).selectExpr("max(hash(id))").collect()
"""


@dataclass(frozen=True)
class Job:
    """What one batch ran on Spark. `parts`: by partition, its first offset and the one after its last."""

    name: str
    session: str
    processor: int
    is_long: bool
    parts: dict[int, tuple[int, int]]
    begun_at: float

    def overlaps(self, other: "Job") -> bool:
        """Whether both have some record."""
        shared = [
            (self.parts[number], other.parts[number]) for number in self.parts.keys() & other.parts.keys()
        ]
        return any(
            first < other_end and other_first < end for (first, end), (other_first, other_end) in shared
        )


def jobs(function: Path) -> list[Job]:
    """In the order of their beginnings."""
    told = map(json.loads, lines(function, "begun"))
    return [Job(**{**job, "parts": dict(job["parts"])}) for job in told]


def committed_at(function: Path, job: Job) -> float:
    """By Spark's own clock; 0 where it never was."""
    done = function / "jobs" / job.name / "_SUCCESS"
    return done.stat().st_mtime if done.exists() else 0


def ended(function: Path) -> dict[str, float]:
    """When each batch was written, by its job."""
    return {job: float(at) for job, at in map(str.split, lines(function, "ended"))}


def stored(function: Path) -> Counter[tuple[int, int]]:
    """How often the sink has each (partition, offset)."""
    try:
        rows = pyarrow.dataset.dataset(function / "rows", format="parquet", partitioning="hive").to_table()
    except FileNotFoundError:  # replaced while it was read, or not there yet
        return Counter()
    return Counter(zip(*(rows.column(name).to_pylist() for name in ("partition", "offset")), strict=True))


def write_batch_function(folder: Path, broker: Broker, topic: str, spark: SharedSpark | OwnSpark) -> Path:
    function = write_spark_function(folder / "f", WRITES, broker, topic, spark, sessionTimeout="2s")
    return set_trigger(function, batch={"mode": "enable", "batchSize": 500, "timeout": "200ms"})


def report_sink(function: Path, running: Replica, sent: int, number: int, report: Report) -> None:
    """Wait until everything is in it, and compare."""
    wait_until(lambda: len(stored(function)) >= sent, about=running)
    assert running.stop() == 0
    found = stored(function)
    report.add("records lost", sent - len(found), 0, 0, number)
    report.add("rows doubled", found.total() - len(found), 0, 0, number)


def replica_killed(
    spark: SharedSpark | OwnSpark, broker: Broker, folder: Path, number: int, report: Report
) -> None:
    """The other one writes what the dead one had in hand, once that one's session is closed."""
    function = write_batch_function(folder, broker, topic := broker.create_topic(8), spark)
    with replica(function, name="-a") as first, replica(function, name="-b") as second:
        victim, survivor = random.sample([first.wait_ready(), second.wait_ready()], 2)
        with Feed.into(broker, topic) as feed:
            wait_until(lambda: len(ended(function)) > 3, about=victim)
            (function / f"burn-{victim.process.pid}").touch()
            wait_until(lambda: any(job.is_long for job in jobs(function)), about=victim)
            time.sleep(random.uniform(0, 1))
            victim.kill()
            killed_at = time.time()
            (cut,) = (job for job in jobs(function) if job.is_long)
            wait_until(lambda: successors(function, cut), about=survivor)
            is_open = not is_closed(spark.link.session_url, cut.session)
        report_sink(function, survivor, feed.sent, number, report)
    every = [(job, later) for job in jobs(function) for later in successors(function, job)]
    late = sum(committed_at(function, job) > later.begun_at for job, later in every)
    report.add_faults("kills", 1, number)
    report.add("dead sessions open when a successor began", is_open, 0, 0, number)
    report.add("jobs committed after a successor began", late, 0, 0, number)
    taken_over_at = min(later.begun_at for later in successors(function, cut))
    report.add("a successor began after, s", taken_over_at - killed_at, 0, 60, number)


def successors(function: Path, job: Job) -> list[Job]:
    """Jobs that began later, with records of `job`."""
    return [later for later in jobs(function) if later.begun_at > job.begun_at and later.overlaps(job)]


def worker_killed(spark: OwnSpark, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """From the kill until nothing runs on Spark, then the CPU time of 5 seconds."""
    function = write_spark_function(folder / "f", BURNS, broker, topic := broker.create_topic(1), spark)
    produce(broker, topic, 1, partitions=1)
    with replica(function) as running:
        wait_until(lambda: lines(function, "burns") and running_on(spark), about=running)
        time.sleep(random.uniform(0, 2))
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        began = time.monotonic()
        wait_until(lambda: not running_on(spark), about=running)
        report.add_faults("kills", 1, number)
        report.add("Spark lists its job after the kill, s", time.monotonic() - began, 0, 2, number)
        before = spark.cpu_seconds()
        time.sleep(5)  # not for order: it is what is measured
        report.add("CPU time in the next 5 s, s", spark.cpu_seconds() - before, 0, 1, number)
        wait_until(lambda: lines(function) == ["again"], about=running)


def running_on(spark: SharedSpark | OwnSpark) -> list[Any]:
    """Spark's own list of running jobs and active stages."""
    base = f"http://127.0.0.1:{UI['spark.ui.port']}/api/v1/applications"
    (application,) = ask(base)
    at = f"{base}/{application['id']}"
    return [*ask(f"{at}/jobs?status=running"), *ask(f"{at}/stages?status=active")]


def ask(url: str) -> list[Any]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: list[Any] = json.loads(answer.read())
    return found


def server_killed(spark: OwnSpark, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """From the kill until a batch is written again, and what is in the sink in the end."""
    function = write_batch_function(folder, broker, topic := broker.create_topic(8), spark)
    use_spark(function, {})  # the server's next token is another one
    starts = len(spark.restarts)
    with replica(function, spark=spark.link) as running:
        running.wait_ready()
        with Feed.into(broker, topic) as feed:
            wait_until(lambda: len(ended(function)) > 3, about=running)
            time.sleep(random.uniform(0, 1))
            os.kill(spark.pid, signal.SIGKILL)
            killed_at = time.time()
            wait_until(lambda: len(spark.restarts) > starts, about=running)
            back_at = time.time()
            wait_until(lambda: max(ended(function).values()) > back_at, about=running)
        report_sink(function, running, feed.sent, number, report)
    written_at = min(at for at in ended(function).values() if at > back_at)
    report.add_faults("kills", 1, number)
    report.add("the server is back after, s", back_at - killed_at, 0, 20, number)
    report.add("a batch is written again after, s", written_at - killed_at, 0, 40, number)


UI = {"spark.ui.enabled": "true", "spark.ui.port": str(free_port())}
SCENARIOS = {"replica": replica_killed, "worker": worker_killed, "server": server_killed}

if __name__ == "__main__":
    with running_spark({"conf": {**QUICK["conf"], **UI}}) as server:
        chosen = {name: functools.partial(scenario, server) for name, scenario in SCENARIOS.items()}
        sys.exit(asyncio.run(main(chosen, __doc__ or "")))
