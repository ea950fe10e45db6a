"""Records that fail on real workers without a broker: what was committed, and who was tried how often."""

import asyncio
from collections.abc import Collection
from dataclasses import replace

from worker_bench import QUICK, QUICK_RETRIES, Bench

from headrace.runtime.config.delivery_policy import DeliveryPolicy, Then
from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.wire.records import WireRecord

FAILS_AT_5 = """
    def handler(context, event):
        write(f"{event.shard_id} {event.offset} {event.attempt}")
        if event.shard_id == 0 and event.offset == 5 and not exists("mended"):
            raise ValueError("no such customer")
"""


class Journal(Feed):
    """Keeps what it was asked for. `gate` holds up its answers; while `is_away` nothing is committed."""

    def __init__(self) -> None:
        self.persisted: list[Checkpoint] = []
        self.dead_letters: list[tuple[WireRecord, str, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_away = False
        self.refusal: Exception | None = None  # of dead letters

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        self.persisted += [partition.checkpoint for partition in partitions]
        await self.gate.wait()
        return not self.is_away

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        self.dead_letters.append((record, reason, attempts))
        await self.gate.wait()
        if self.refusal is not None:
            raise self.refusal
        return True


def journal_of(b: Bench) -> Journal:
    journal = Journal()
    b.dispatcher.connect(journal)
    return journal


def policy(then: Then = "halt", *, attempts: int = 3, **others: object) -> DeliveryPolicy:
    """Quick retries, then `then`."""
    failure = replace(QUICK_RETRIES, max_attempts=attempts, then=then, dead_letter_topic="dlq")
    return replace(QUICK, failure=failure, **others)  # type: ignore[arg-type]


def assign_from(b: Bench, checkpoint: Checkpoint) -> AssignedPartition:
    """A new assignment of partition t/0, with what the last owner has committed."""
    partition = of_records(PartitionKey("t", 0), checkpoint, 256)
    b.dispatcher.begin([partition])
    return partition


def attempts_at(b: Bench, offset: int) -> list[int]:
    """The attempt numbers that the handler saw, of partition 0."""
    rows = [line.split() for line in b.lines()]
    return [int(row[2]) for row in rows if row[:2] == ["0", str(offset)]]


def order(b: Bench, shard: int = 0) -> list[int]:
    """Offsets as the handler met them, each once where deliveries follow each other."""
    offsets = [int(line.split()[1]) for line in b.lines() if line.startswith(f"{shard} ")]
    return [offset for at, offset in enumerate(offsets) if not at or offsets[at - 1] != offset]
