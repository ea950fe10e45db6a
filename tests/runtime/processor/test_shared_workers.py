"""Triggers with one workerAllocatorName: they share their workers, and a worker runs one thing at a time."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from broker import Broker
from kafka_records import group_offsets, produce
from replica import QUICK_GROUP
from worker_bench import PRELUDE, until

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.errors import ConfigError
from headrace.runtime.processor.processor import Processor

HANDLER = """
def handler(context, event):
    write(f"{event.trigger.name} {os.getpid()} begins")
    if event.trigger.name == "web":
        wait_for(event.path[1:])
    write(f"{event.trigger.name} {os.getpid()} ends")
    return event.trigger.kind
"""


def write_function(folder: Path, triggers: dict[str, Any]) -> None:
    (folder / "main.py").write_text(PRELUDE + HANDLER)
    spec = {"handler": "main:handler", "triggers": triggers}
    (folder / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": "f"}, "spec": spec}))


def orders(broker: Broker, topic: str) -> dict[str, Any]:
    attributes = {"topics": [topic], "brokers": [broker.bootstrap], "consumerGroup": topic, **QUICK_GROUP}
    return {"kind": "kafka-cluster", "workerAllocatorName": "pool", "attributes": attributes}


WEB = {"kind": "http", "workerAllocatorName": "pool", "attributes": {"port": 0}}
TICKS = {"kind": "cron", "workerAllocatorName": "pool", "attributes": {"interval": "50ms"}}


@asynccontextmanager
async def processing(folder: Path) -> AsyncIterator[Processor]:
    processor, stop = Processor([load_function(folder)], ""), asyncio.Event()
    run = asyncio.create_task(processor.run(stop))
    try:
        yield processor
    finally:
        stop.set()
        await run


async def url_of(processor: Processor) -> str:
    async def found() -> str:
        (replica,) = (await processor.status())["replicas"]
        return next((it["url"] for it in replica["triggers"] if it["kind"] == "http"), None) or ""

    while not (url := await found()):
        await asyncio.sleep(0.01)
    return url


async def ask(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def handled(processor: Processor) -> dict[str, float]:
    """By trigger, as the metrics have it."""
    text = (await processor.metrics()).decode()
    found = re.findall(r'handled_events_total{.*result="success".*trigger_id="(\w+)".*} ([\d.]+)', text)
    return {name: float(count) for name, count in found}


async def timed(processor: Processor) -> dict[str, float]:
    """How many handlers' times each trigger has."""
    text = (await processor.metrics()).decode()
    found = re.findall(r'headrace_handler_duration_seconds_count{.*trigger_id="(\w+)".*} ([\d.]+)', text)
    return {name: float(count) for name, count in found}


async def sampled(processor: Processor) -> dict[str, int]:
    """How many each trigger had handled when the page's history was written last."""
    (replica,) = (await processor.recent())["replicas"]
    return {it["name"]: samples[-1][2] for it in replica["triggers"] if (samples := it["samples"])}


def lines(folder: Path) -> list[str]:
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


def never_two_at_once(written: list[str]) -> bool:
    """Of one worker process: what begins ends before the next begins."""
    by_pid: dict[str, list[str]] = {}
    for line in written:
        name, pid, what = line.split()
        by_pid.setdefault(pid, []).append(f"{name} {what}")
    return all(
        begin.replace("begins", "ends") == end
        for told in by_pid.values()
        for begin, end in zip(told[::2], told[1::2], strict=False)
    )


async def test_requests_and_records_take_turns_at_one_worker(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(broker.create, topic, 1)
    write_function(tmp_path, {"web": WEB, "orders": orders(broker, topic)})
    async with processing(tmp_path) as processor:
        url = await url_of(processor)
        held = asyncio.create_task(ask(f"{url}/go"))
        await until(lambda: len(lines(tmp_path)) == 1)
        await asyncio.to_thread(produce, broker, topic, 50, partitions=1)
        (tmp_path / "go").touch()
        assert await held == (200, "http")
        await until(lambda: len(lines(tmp_path)) == 102)
        assert {line.split()[1] for line in lines(tmp_path)} == {lines(tmp_path)[0].split()[1]}
        assert never_two_at_once(lines(tmp_path))
        (replica,) = (await processor.status())["replicas"]
        workers = {it["name"]: (len(it["workers"]), it.get("workersOf")) for it in replica["triggers"]}
        assert workers == {"orders": (1, None), "web": (0, "orders")}
        while (counted := await handled(processor)) != {"orders": 50, "web": 1}:
            assert counted["orders"] <= 50
            await asyncio.sleep(0.01)
        assert await timed(processor) == {"orders": 50, "web": 1}
        while (await sampled(processor)) != {"orders": 50, "web": 1}:
            await asyncio.sleep(0.05)
    assert (await asyncio.to_thread(group_offsets, broker, topic))[topic, 0] == 50


async def test_a_worker_that_dies_in_a_request_costs_the_records_nothing(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(broker.create, topic, 2)
    write_function(tmp_path, {"orders": orders(broker, topic), "web": WEB})
    async with processing(tmp_path) as processor:
        url = await url_of(processor)
        held = asyncio.create_task(ask(f"{url}/never"))
        await until(lambda: len(lines(tmp_path)) == 1)
        await asyncio.to_thread(produce, broker, topic, 40, partitions=2)
        os.kill(int(lines(tmp_path)[0].split()[1]), signal.SIGKILL)
        assert (await held)[0] == 502
        await until(lambda: sum("orders" in line and "ends" in line for line in lines(tmp_path)) == 40)
        (tmp_path / "go").touch()
        assert (await ask(f"{url}/go"))[0] == 200


async def test_a_stop_finishes_all_that_runs_whoever_has_asked(tmp_path: Path) -> None:
    write_function(tmp_path, {"web": WEB, "ticks": TICKS})
    async with processing(tmp_path) as processor:
        url = await url_of(processor)
        await until(lambda: any(line.startswith("ticks") for line in lines(tmp_path)))
        held = asyncio.create_task(ask(f"{url}/go"))
        await until(lambda: any(line.startswith("web") for line in lines(tmp_path)))
        (tmp_path / "go").touch()
    assert await held == (200, "http")
    written = lines(tmp_path)
    assert len(written) % 2 == 0
    assert never_two_at_once(written)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"numWorkers": 2}, "numWorkers must be the same: 2 here, 1 there"),
        ({"workerTerminationTimeout": "3s"}, "workerTerminationTimeout must be the same"),
        ({"kind": "kafka"}, "another stream, is known, but not built"),
    ],
)
def test_what_cannot_share_is_refused_with_a_line(
    tmp_path: Path, changed: dict[str, Any], problem: str
) -> None:
    kafka = {"topics": ["t"], "brokers": ["b:1"], "consumerGroup": "g"}
    first = {"kind": "kafka", "workerAllocatorName": "pool", "attributes": kafka}
    second = WEB | changed if "kind" not in changed else first | changed
    write_function(tmp_path, {"orders": first, "web": second})
    with pytest.raises(ConfigError, match=problem):
        load_function(tmp_path)


def test_a_second_stream_is_refused_whoever_comes_first(tmp_path: Path) -> None:
    kafka = {"topics": ["t"], "brokers": ["b:1"], "consumerGroup": "g"}
    stream = {"kind": "kafka", "workerAllocatorName": "pool", "attributes": kafka}
    write_function(tmp_path, {"web": WEB, "orders": stream, "more": stream})
    with pytest.raises(ConfigError, match=r"orders.*sharing workers with trigger 'more', another stream"):
        load_function(tmp_path)


PRODUCES = """
async def handler(context, event):
    message = context.produce(OUT, "x")
    if event.trigger.name == "web":
        return str((await message).offset)
"""


async def test_with_exactly_once_a_request_may_await_its_message(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """It goes with no commit: only a record's does."""
    out = broker.create_topic(1)
    triggers = {"orders": orders(broker, topic), "web": WEB}
    triggers["orders"]["attributes"]["exactlyOnce"] = True
    write_function(tmp_path, triggers)
    (tmp_path / "main.py").write_text(PRODUCES.replace("OUT", repr(out)))
    async with processing(tmp_path) as processor:
        url = await url_of(processor)
        assert [await ask(url) for _ in range(2)] == [(200, "0"), (200, "1")]
