"""`delivery: ranges`: where the partitions' logs begin and end, asked again and again. Nothing is fetched."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.structs import ConsumerRecord

from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.kafka.connecting import start_client
from headrace.runtime.kafka.refusals import REFUSALS
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import stuck_at
from headrace.runtime.streams.assignment import Assignment
from headrace.triggers.kafka.client import undecoded_fetch
from headrace.triggers.kafka.client.internals import high_watermark
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS = 0.2
_BEGINNINGS_SECONDS = 1.0
_ANSWER_SECONDS = 2.0
_READ_SECONDS = 10.0

Offsets = Mapping[TopicPartition, int]
Ask = Callable[[list[TopicPartition]], Awaitable[Offsets]]


class RangeWatcher:
    """A watcher that extends partitions to the ends of their logs.

    `on_out_of_range` is told of partitions whose position is, as often as that is seen.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        dispatch: Dispatch,
        assignment: Assignment,
        on_out_of_range: Callable[[Offsets], None],
    ) -> None:
        self._consumer = consumer
        self._dispatch = dispatch
        self._assigned = assignment.partitions
        self._on_out_of_range = on_out_of_range
        self._is_due = asyncio.Event()
        self._known_beginnings: Offsets = {}  # where the logs begin
        self._beginnings_read_at = 0.0

    def look_now(self) -> None:
        """Look at once: an assignment has begun."""
        self._is_due.set()

    async def run_forever(self) -> None:
        """Look until cancelled. Raises KafkaError where waiting doesn't help."""
        while True:
            await self._check()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_SECONDS):
                    await self._is_due.wait()
            self._is_due.clear()

    async def _check(self) -> None:
        # Assignments may change while the broker is asked: what is another object by then is left alone.
        before = {TopicPartition(*key): partition for key, partition in self._assigned.items()}
        # With read_committed, the end is the last stable offset.
        ends = await self._ask(self._consumer.end_offsets, before.keys())
        beginnings = await self._beginnings(before.keys())
        lost = {}
        for tp in ends.keys() & beginnings.keys():
            partition = before[tp]
            if is_out_of_range(partition, beginnings[tp], ends[tp]) and await self._is_lost(tp, partition):
                lost[tp] = stuck_at(partition)
            elif self._assigned.get(tp) is partition:
                self._dispatch.extend(partition, ends[tp])
        if lost:
            self._on_out_of_range(lost)
        self._dispatch.dispatch()

    async def _beginnings(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return beginning offsets, cached, since retention moves them rarely."""
        now = time.monotonic()
        is_old = now >= self._beginnings_read_at + _BEGINNINGS_SECONDS
        if is_old or self._known_beginnings.keys() < set(partitions):
            self._known_beginnings = await self._ask(self._consumer.beginning_offsets, partitions)
            self._beginnings_read_at = now
        return self._known_beginnings

    async def _ask(self, ask: Ask, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the offsets of those that answer.

        One without a leader fails the others' answers: then each is asked alone.
        """
        if not partitions:
            return {}
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await ask(list(partitions))
        except (*REFUSALS, TopicAuthorizationFailedError):
            raise
        except (KafkaError, TimeoutError) as error:
            if len(partitions) > 1:
                answers = await asyncio.gather(*(self._ask(ask, {tp}) for tp in partitions))
                return {tp: offset for answer in answers for tp, offset in answer.items()}
            (tp,) = partitions
            logger.warning("%s/%d: where its log ends can't be read yet (%r)", tp.topic, tp.partition, error)
            return {}

    async def _is_lost(self, tp: TopicPartition, partition: AssignedPartition) -> bool:
        """Whether the position is beyond the whole log, and not only behind the last stable offset.

        A plan of before isolationLevel was changed may lie there.
        """
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                end = await high_watermark(self._consumer, tp)
        except (KafkaError, TimeoutError):
            return False
        is_there = self._assigned.get(tp) is partition
        return is_there and is_out_of_range(partition, self._known_beginnings.get(tp, 0), end)


async def read_record(
    settings: KafkaSettings, client_id: str, tp: TopicPartition, offset: int
) -> ConsumerRecord | None:
    """Return the record at `offset`; None where there is none (compaction, control records).

    Raises KafkaError, and TimeoutError where the broker doesn't answer.
    """
    consumer = AIOKafkaConsumer(
        **settings.access.client_options(),
        client_id=client_id,
        isolation_level=settings.isolation_level,
    )
    async with asyncio.timeout(_READ_SECONDS):
        try:
            # A consumer of its own, for one record: the trigger's fetches nothing with ranges.
            await start_client(consumer)
            undecoded_fetch.fetch_counted(consumer, max_batch_bytes=settings.max_batch_bytes)
            consumer.assign([tp])
            consumer.seek(tp, offset)
            # Offsets without a record (transactions, compaction) move the position, too.
            while await consumer.position(tp) <= offset:
                for record in (await consumer.getmany(tp, timeout_ms=100, max_records=1)).get(tp, ()):
                    return record if record.offset == offset else None
            return None
        finally:
            await consumer.stop()


def is_out_of_range(partition: AssignedPartition, beginning: int, end: int) -> bool:
    """Whether a partition can't go on: its next offset isn't in the log any more, or never will be.

    What is in flight is left alone: where its records are gone, its handler fails. So is what has halted.
    """
    lane = partition.lane
    if lane.in_flight_count or lane.state is PartitionState.HALTED:
        return False
    next_offset = partition.ledger.position if lane.buffer.next_offset is None else lane.buffer.next_offset
    planned = partition.plan.planned.last_end if partition.plan.planned is not None else 0
    return not beginning <= next_offset or end < max(partition.ledger.position, planned)
