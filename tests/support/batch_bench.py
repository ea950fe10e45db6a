"""Batches on real workers without a broker: what handlers saw, and what was committed before they saw it."""

import asyncio
import textwrap
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from worker_bench import QUICK_RETRIES, Bench, bench, records

from headrace.runtime.config.delivery_policy import AckMode, BatchPolicy, DeliveryPolicy, FailurePolicy
from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.wire.records import WireRecord

# What handlers here may use besides PRELUDE.
_SEE = """
def see(events):
    write(" ".join(f"{event.shard_id}/{event.offset}/{event.attempt}" for event in events))
"""
SEES = """
    def handler(context, events):
        see(events)
"""
WAITS = """
    def handler(context, events):
        see(events)
        wait_for("go")
"""
Seen = tuple[int, int, int]  # partition, offset, attempt


@dataclass
class Commits(Feed):
    """A source that keeps what it was asked to commit, and answers when and what it is told to."""

    commits: list[dict[int, Checkpoint]] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)  # the next ones; then True
    refused: set[int] = field(default_factory=set)  # partitions
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    dead_letters: list[tuple[int, int, int]] = field(default_factory=list)

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        self.commits.append({partition.key.partition: partition.checkpoint for partition in partitions})
        await self.may_answer.wait()
        if any(partition.key.partition in self.refused for partition in partitions):
            return False
        return self.answers.pop(0) if self.answers else True

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        self.dead_letters.append((partition.key.partition, record.offset, attempts))
        return True

    @property
    def plans(self) -> list[dict[int, tuple[int, int]]]:
        """Of each commit that planned something."""
        found = [
            {number: (said.plan.first, said.plan.end) for number, said in commit.items() if said.plan}
            for commit in self.commits
        ]
        return [plans for plans in found if plans]


@dataclass
class BatchBench:
    bench: Bench
    source: Commits

    def assign(self, *starts: Checkpoint, capacity: int = 256, window: int = 0) -> list[AssignedPartition]:
        """A partition of topic `t` for each start."""
        partitions = [
            of_records(PartitionKey("t", number), start, capacity, window)
            for number, start in enumerate(starts)
        ]
        self.bench.dispatcher.begin(partitions)
        return partitions

    def feed(self, count: int, *partitions: AssignedPartition) -> None:
        """The next records of each partition, as of one fetch."""
        for partition in partitions:
            self.bench.dispatcher.add(partition, records(partition.ledger.position, count))
        self.bench.dispatcher.dispatch()

    async def settled(self, offset: int, *partitions: AssignedPartition) -> None:
        for partition in partitions:
            await self.bench.settled(partition, offset)

    @property
    def seen(self) -> list[list[Seen]]:
        """Each batch that a handler began with, in order of the handlers' writes."""
        return [
            [
                (int(n), int(offset), int(attempt))
                for n, offset, attempt in (e.split("/") for e in line.split())
            ]
            for line in self.bench.lines()
        ]

    @property
    def offsets(self) -> list[list[int]]:
        """The same, offsets only: for tests of one partition."""
        return [[offset for _, offset, _ in batch] for batch in self.seen]

    @property
    def times(self) -> Counter[tuple[int, int]]:
        """How often each (partition, offset) was delivered."""
        return Counter((number, offset) for batch in self.seen for number, offset, _ in batch)


@asynccontextmanager
async def batch_bench(  # noqa: PLR0917  # what a trigger's settings are made of
    folder: Path,
    handler: str,
    size: int,
    timeout_seconds: float = 600,
    workers: int = 1,
    failure: FailurePolicy = QUICK_RETRIES,
    ack_mode: AckMode = AckMode.DISABLE,
    static: bool = False,
    event_timeout_seconds: float | None = None,
    decoder: str = "headrace.triggers.kafka.format.decoder:decode",
    exactly_once: bool = False,
) -> AsyncIterator[BatchBench]:
    """Workers whose `handler` may use PRELUDE's names and `see(events)`."""
    policy = DeliveryPolicy(
        ack_mode=ack_mode,
        failure=failure,
        batch=BatchPolicy(size, timeout_seconds),
        event_timeout_seconds=event_timeout_seconds,
        exactly_once=exactly_once,
    )
    source = Commits()
    source.may_answer.set()
    handler = _SEE + textwrap.dedent(handler)
    async with bench(folder, handler, workers=workers, static=static, policy=policy, decoder=decoder) as b:
        b.dispatcher.connect(source)
        yield BatchBench(b, source)


def fresh(count: int) -> Sequence[Checkpoint]:
    """Starts of partitions that nobody has read."""
    return [Checkpoint(0)] * count
