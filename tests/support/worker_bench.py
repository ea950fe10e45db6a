"""A dispatcher with real worker processes and no broker: records go in by hand."""

import asyncio
import logging
import os
import signal
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.runtime.config.delivery_policy import DeliveryPolicy, FailurePolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.batch_scheduler import EndSession, no_session
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.dispatch.interface import Output
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_keys, of_records
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.records import Headers, WireRecord
from headrace.runtime.wire.start import STREAM_EVENT, WorkerStart
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.process import WorkerProcess

QUICK_RETRIES = FailurePolicy(max_attempts=3, backoff_seconds=0.01, max_backoff_seconds=0.02)
QUICK = DeliveryPolicy(failure=QUICK_RETRIES)


@dataclass
class Record:
    offset: int
    value: bytes | None = b""
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = 1_700_000_000_123
    timestamp_type: int | None = 0


def records(first: int, count: int) -> list[Record]:
    return [Record(offset, str(offset).encode()) for offset in range(first, first + count)]


@dataclass
class Bench:
    dispatcher: Dispatcher
    folder: Path
    metrics: MetricRegistry

    def assign(self, *names: tuple[str, int], start: int = 0) -> list[AssignedPartition]:
        keys, ordering = [PartitionKey(*name) for name in names], self.dispatcher.policy.ordering
        partitions = [
            of_records(key, Checkpoint(start), 256)
            if ordering == "partition"
            else of_keys(key, Checkpoint(start), 1000, ordering)
            for key in keys
        ]
        self.dispatcher.begin(partitions)
        return partitions

    def feed(self, partition: AssignedPartition, batch: Sequence[WireRecord]) -> None:
        self.dispatcher.add(partition, batch)
        self.dispatcher.dispatch()

    def expect_quick_handlers(self, ns_per_record: float = 1) -> None:
        """As if they had been: the next records of a partition are one run, and every worker has room."""
        self.dispatcher.run_sizer.ns_per_record = ns_per_record

    def wait_deaf(self, condition: Callable[[], object]) -> None:
        """Poll without turning the event loop: workers go on, and the processor hears nothing of it."""
        while not condition():
            time.sleep(0.005)

    async def settled(self, partition: AssignedPartition, offset: int) -> None:
        """Wait until the commit has reached `offset`."""
        await until(lambda: partition.ledger.committable >= offset)

    def lines(self, name: str = "log") -> list[str]:
        """What the handler has written with `write(...)`."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def kill_worker(b: Bench, index: int = 0) -> None:
    """As the kernel or a person does."""
    kill_worker_process(b.dispatcher.workers[index])


def kill_worker_process(worker: WorkerHandle) -> None:
    """As `kill_worker`."""
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)


async def until(condition: object, seconds: float = 120) -> None:
    """Poll a condition that has no event of its own."""
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


PRELUDE = '''
import asyncio, os, pathlib, signal, sys, time
FOLDER = pathlib.Path(__file__).parent

def write(text, name="log"):
    with open(FOLDER / name, "a") as file:
        file.write(f"{text}\\n")

def exists(name):
    return (FOLDER / name).exists()

def wait_for(name):
    while not exists(name):
        time.sleep(0.005)

def scribble(at, *words):
    """Into the memory that the worker shares with its processor, through the objects that have it."""
    frame = sys._getframe()
    while frame.f_code.co_name != "_handle_run":
        frame = frame.f_back
    memory = frame.f_locals["self"]._env.slot._memory
    memory[8 * at : 8 * (at + len(words))] = b"".join(word.to_bytes(8, "little") for word in words)
'''


NO_OUTPUTS: Mapping[str, Output] = {}


@asynccontextmanager
async def bench(
    folder: Path,
    handler: str,
    *,
    workers: int = 1,
    static: bool = False,
    policy: DeliveryPolicy = QUICK,
    router: AckRouter | None = None,
    spark_session_id: str = "",
    decoder: str = "headrace.triggers.kafka.format.decoder:decode",
    event: str = STREAM_EVENT,
    end_session: EndSession = no_session,
    outputs: Mapping[str, Output] = NO_OUTPUTS,
    log_level: int = logging.INFO,
    running_event_loop: bool = True,
) -> AsyncIterator[Bench]:
    """Workers that run `handler`, source text that has PRELUDE's names and defines `handler`."""
    folder.mkdir(exist_ok=True)
    (folder / "function_code.py").write_text(PRELUDE + textwrap.dedent(handler))
    metrics = MetricRegistry()
    policy = replace(policy, worker_allocation_mode="static") if static else policy
    lease = Lease.create(workers)

    def spawn(index: int) -> WorkerProcess:
        start = WorkerStart(
            str(folder),
            "function_code",
            "handler",
            index,
            "kafka-cluster",
            "t",
            ack_mode=policy.ack_mode.value,
            is_cumulative=policy.is_cumulative,
            topic_aliases=policy.topic_aliases,
            takes_acks=router.takes_acks if router else policy.ack_mode.is_explicit,
            decoder=decoder,
            event=event,
            is_batch=policy.batch is not None,
            max_concurrency=policy.max_concurrency,
            wants_replies=policy.wants_replies,
            exactly_once=policy.exactly_once,
            spark_session_id=spark_session_id,
            outputs=list(outputs),
            produce_topics=None if policy.produce_topics is None else sorted(policy.produce_topics),
            log_level=log_level,
            running_event_loop=running_event_loop,
        )
        return WorkerProcess(start, os.environ, lease)

    trigger_metrics = TriggerMetrics(metrics, "", "f", "kafka-cluster", "t")
    dispatcher = Dispatcher(workers, spawn, policy, trigger_metrics, lease, router, end_session, outputs)
    try:
        await dispatcher.start()
        yield Bench(dispatcher, folder, metrics)
    finally:
        await dispatcher.stop(0)
