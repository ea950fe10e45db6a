"""What a worker is in, and since when: on the status page, and as a gauge."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from worker_bench import QUICK, Bench, bench, records, until

from headrace.runtime.dispatch.monitor import worker_statuses
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.processor.processor import fill_gauges
from headrace.triggers.base import TriggerStatus

WAITS = """
    def handler(context, event):
        write(event.offset)
        wait_for(f"go-{event.shard_id}")
"""


def longest_seconds(b: Bench) -> list[float]:
    """By worker, as a scrape would show them."""
    labels = TriggerMetrics(b.metrics, "", "f", "kafka-cluster", "t").labels
    fill_gauges(b.metrics.gauges, labels, b.dispatcher.workers, TriggerStatus())
    (family,) = b.metrics.gauges.running.collect()
    return [sample.value for sample in family.samples]


async def test_a_worker_tells_which_record_it_is_in_and_since_when(tmp_path: Path) -> None:
    async with bench(tmp_path, WAITS, workers=2) as b:
        first, second = b.assign(("t", 0), ("t", 1))
        b.feed(first, records(7, 1))

        def rows() -> list[dict[str, Any]]:
            return [row for worker in worker_statuses(b.dispatcher) for row in worker["runningRecords"]]

        await until(lambda: rows() and rows()[0]["runningSeconds"] >= 0.2)
        (before,) = json.loads(json.dumps(rows()))
        assert (before["topic"], before["partition"], before["offset"]) == ("t", 0, 7)
        assert datetime.fromisoformat(before["since"]).tzinfo is not None
        busy, idle = sorted(longest_seconds(b), reverse=True)
        assert busy >= before["runningSeconds"] - 0.05
        assert idle == 0
        b.feed(second, records(3, 1))
        await until(lambda: [row["offset"] for row in rows()].count(3) == 1)
        assert sorted(row["partition"] for row in rows()) == [0, 1]
        for name in ("go-0", "go-1"):
            (tmp_path / name).touch()
        await b.settled(first, 8)
        await b.settled(second, 4)
        assert rows() == []
        assert longest_seconds(b) == [0, 0]


async def test_of_several_at_once_the_longest_comes_first(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            write(event.offset)
            while not exists("go"):
                await asyncio.sleep(0.005)
    """
    async with bench(tmp_path, handler, policy=replace(QUICK, max_concurrency=4)) as b:
        partitions = b.assign(("t", 0), ("t", 1), ("t", 2))
        for count, partition in enumerate(partitions, 1):
            b.feed(partition, records(partition.key.partition, 1))
            await until(lambda count=count: len(b.lines()) == count)
        (worker,) = worker_statuses(b.dispatcher)
        assert [row["offset"] for row in worker["runningRecords"]] == [0, 1, 2]
        (tmp_path / "go").touch()
        for partition in partitions:
            await b.settled(partition, partition.key.partition + 1)
