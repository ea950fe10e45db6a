"""The Kafka trigger: one consumer in the group, feeding one dispatcher."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from headrace.runtime.config import TriggerSpec
from headrace.runtime.dispatch import Dispatcher
from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partition import AssignedPartition
from headrace.runtime.partition_ranges import describe_partitions
from headrace.triggers import kafka_internals as internals
from headrace.triggers.kafka_committer import Committer
from headrace.triggers.kafka_connect import connect, wait_for_topics
from headrace.triggers.kafka_errors import explain
from headrace.triggers.kafka_settings import KafkaSettings
from headrace.triggers.kafka_start import read_starts

logger = logging.getLogger(__name__)

_COMMIT_INTERVAL_SECONDS = 1.0
_COMMIT_TIMEOUT_SECONDS = 5.0
_FETCH_WAIT_SECONDS = 1.0
_RETRY_SECONDS = 1.0


class KafkaTrigger(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """Keeps triggers.base.Trigger. aiokafka calls the two listener methods.

    Owns the assignment: `_assigned` holds what is delivered now, and is empty from a revoke until the next
    assignment's start offsets are known.
    """

    kind = "kafka-cluster"
    aliases = ("kafka",)
    Settings = KafkaSettings

    def __init__(
        self, spec: TriggerSpec, dispatcher: Dispatcher, metrics: TriggerMetrics, client_id: str
    ) -> None:
        self._spec = spec
        self._settings: KafkaSettings = spec.settings
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._client_id = client_id
        self._assigned: dict[TopicPartition, AssignedPartition] = {}
        self._wanted = internals.Wanted()
        self._problem = "connecting"
        self._is_stopping = False
        self._releasing = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None
        self._loops: asyncio.Task[None] | None = None
        self._tasks: asyncio.TaskGroup
        self._consumer: AIOKafkaConsumer | None = None
        self._admin: AIOKafkaAdminClient
        self._committer: Committer
        dispatcher.on_room = self._on_room

    # ---- start, run, stop

    async def run(self) -> None:
        """Connect, join the group, fetch and commit until stopped."""
        self._loops = asyncio.create_task(self._run(), name=f"trigger-{self._spec.name}")
        await asyncio.wait([self._loops])
        if not self._loops.cancelled():
            self._loops.result()

    async def stop(self, wait_seconds: float) -> None:
        """Give everything back, commit, leave the group."""
        self._is_stopping = True
        if self._loops is not None:
            self._loops.cancel()
            await asyncio.wait([self._loops])
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            await self._release(consumer, wait_seconds, is_lost=False)
            await consumer.stop()
            await self._admin.close()

    async def _run(self) -> None:
        try:
            consumer, self._admin = await connect(self._settings, self._client_id)
            self._consumer = consumer
            self._committer = Committer(consumer, self._metrics)
            internals.tune(consumer, retry_seconds=self._settings.retry_backoff_seconds)
            self._problem = f"waiting for topics {', '.join(self._settings.topics)}"
            await wait_for_topics(self._admin, self._settings)
            self._problem = f"joining group {self._settings.consumer_group}"
            consumer.subscribe(topics=list(self._settings.topics), listener=self)
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(self._fetch_forever(consumer), name="fetch")
                tasks.create_task(self._commit_forever(consumer), name="commit")
        except* KafkaError as errors:
            raise explain(errors.exceptions[0], self._settings) from None

    # ---- fetch and commit

    async def _fetch_forever(self, consumer: AIOKafkaConsumer) -> None:
        max_records = max(1, self._settings.channel_buffer_size // 2)
        while True:
            try:
                fetched = await internals.fetch(consumer, self._wanted, _FETCH_WAIT_SECONDS, max_records)
            except OffsetOutOfRangeError as error:
                await self._restart_out_of_range(consumer, error.args[0])
                continue
            except KafkaError as error:
                if not error.retriable:
                    raise
                logger.warning("fetching failed (%r); trying again", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for tp, records in fetched.items():
                self._add(tp, records)
            if fetched:
                self._dispatcher.dispatch()
                await asyncio.sleep(0)  # a fetch that finds records never waits; others must get a turn

    def _add(self, tp: TopicPartition, records: Sequence[ConsumerRecord]) -> None:
        partition = self._assigned[tp]
        self._dispatcher.add(partition, records)
        record_bytes = max(1, sum(record.serialized_value_size for record in records) // len(records))
        share = self._settings.max_buffered_bytes // len(self._assigned)
        partition.capacity = max(1, min(self._settings.channel_buffer_size, share // record_bytes))
        if not partition.has_room:
            self._wanted.discard(tp)

    def _on_room(self, partition: AssignedPartition) -> None:
        tp = TopicPartition(partition.topic, partition.partition)
        if tp not in self._wanted and partition.has_room and self._assigned.get(tp) is partition:
            self._wanted.add(tp)
            internals.wake(self._consumer)

    async def _commit_forever(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            await asyncio.sleep(_COMMIT_INTERVAL_SECONDS)
            self._dispatcher.report_long_records(self._settings.max_processing_time_seconds)
            await self._skip_gaps(consumer)
            await self._committer.commit(self._assigned.values(), _COMMIT_TIMEOUT_SECONDS)

    async def _skip_gaps(self, consumer: AIOKafkaConsumer) -> None:
        """Offsets without a record at the end of a partition (control records, compaction) leave no lag."""
        for tp, partition in list(self._assigned.items()):
            if not partition.unsettled:
                partition.ledger.advance(await consumer.position(tp))

    async def _restart_out_of_range(
        self, consumer: AIOKafkaConsumer, positions: Mapping[TopicPartition, int]
    ) -> None:
        """A log was truncated, or a topic created anew: go on with the earliest record, and say so."""
        beginnings = await consumer.beginning_offsets(list(positions))
        for tp, start in beginnings.items():
            partition = self._assigned.get(tp)
            if partition is None:
                continue
            self._metrics.offset_resets.inc()
            logger.error("%s: offset %d is out of range, going on with %d", partition, positions[tp], start)
            self._wanted.discard(tp)
            wait_seconds = self._settings.max_wait_handler_during_rebalance_seconds
            await self._dispatcher.revoke([partition], wait_seconds)
            if self._assigned.get(tp) is partition:
                self._assigned[tp] = replacement = self._deliver_from(consumer, tp, start)
                self._dispatcher.join(replacement)

    # ---- rebalance

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """The group rebalances: give everything back, whoever gets it next. Heartbeats go on meanwhile."""
        if self._consumer is None:
            return
        self._problem = f"group {self._settings.consumer_group} is rebalancing"
        is_lost = internals.generation(self._consumer) < 0
        if is_lost and self._assigned:
            logger.error("the membership in the group is lost: its records are dropped here, uncommitted")
        wait_seconds = 0 if is_lost else self._settings.max_wait_handler_during_rebalance_seconds
        await self._release(self._consumer, wait_seconds, is_lost=is_lost)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Heartbeats wait for this to return: the work is a task's."""
        if self._consumer is None or self._is_stopping:
            return
        self._metrics.rebalances.inc()
        start = self._start_assignment(self._consumer, assigned)
        self._starting = self._tasks.create_task(start, name="assignment")

    async def _start_assignment(
        self, consumer: AIOKafkaConsumer, assigned: Collection[TopicPartition]
    ) -> None:
        settings = self._settings
        others = [tp for tp in assigned if settings.partitions and tp.partition not in settings.partitions]
        consumer.pause(*others)
        mine = sorted(set(assigned) - set(others))
        starts = await read_starts(
            consumer, self._admin, settings.consumer_group, mine, settings.initial_offset
        )
        self._assigned = {tp: self._deliver_from(consumer, tp, starts.offsets[tp]) for tp in mine}
        self._dispatcher.assign(list(self._assigned.values()))
        self._committer.open(starts.committed)
        self._problem = ""
        internals.wake(consumer)
        self._log_assignment(len(others))
        # Start positions count as commits from now on: initialOffset must not be asked twice.
        await self._committer.commit(self._assigned.values(), _COMMIT_TIMEOUT_SECONDS)

    def _deliver_from(self, consumer: AIOKafkaConsumer, tp: TopicPartition, offset: int) -> AssignedPartition:
        consumer.seek(tp, offset)
        self._wanted.add(tp)
        return AssignedPartition(tp.topic, tp.partition, offset, self._settings.channel_buffer_size)

    async def _release(self, consumer: AIOKafkaConsumer, wait_seconds: float, *, is_lost: bool) -> None:
        """Nothing of this assignment is in flight, and what it settled is committed, when this returns."""
        async with self._releasing:  # a stop and a rebalance may meet
            if self._starting is not None:
                self._starting.cancel()
                await asyncio.wait([self._starting])
            partitions = list(self._assigned.values())
            self._assigned = {}
            self._wanted.clear()
            await self._dispatcher.revoke(partitions, wait_seconds)
            if partitions and not is_lost:
                await self._committer.commit(partitions, _COMMIT_TIMEOUT_SECONDS)
            self._committer.close()

    # ---- what others see

    @property
    def problems(self) -> list[str]:
        """Why no records flow, or why some don't."""
        halted = [p for p in self._assigned.values() if p.hold.is_stuck]
        return [
            *([self._problem] if self._problem else []),
            *(f"{partition} is halted at offset {partition.ledger.committable}" for partition in halted),
        ]

    def status(self) -> dict[str, Any]:
        """Group membership and partitions."""
        return {
            "topics": list(self._settings.topics),
            "consumerGroup": self._settings.consumer_group,
            "generation": internals.generation(self._consumer) if self._consumer else None,
            "partitions": [self._partition_status(partition) for partition in self._assigned.values()],
        }

    def _partition_status(self, partition: AssignedPartition) -> dict[str, Any]:
        return {
            "topic": partition.topic,
            "partition": partition.partition,
            "worker": self._dispatcher.allocator.worker_of(partition),
            "state": partition.hold.value,
            "committed": self._committer.committed(partition),
            "committable": partition.ledger.committable,
            "position": partition.ledger.position,
            "inFlight": partition.in_flight,
            "unsettled": partition.unsettled,
            "attempt": partition.attempt,
        }

    def _log_assignment(self, excluded_count: int) -> None:
        by_worker: dict[int | None, list[tuple[str, int]]] = {}
        for partition in self._assigned.values():
            worker = self._dispatcher.allocator.worker_of(partition)
            by_worker.setdefault(worker, []).append(partition.key)
        if excluded_count:
            logger.info("%d assigned partitions are left alone: not in `partitions`", excluded_count)
        for line in _assignment_lines(by_worker, len(self._dispatcher.workers)):
            logger.info("%s", line)


def _assignment_lines(
    by_worker: Mapping[int | None, Iterable[tuple[str, int]]], worker_count: int
) -> list[str]:
    if not by_worker:
        return ["assigned: no partitions; this replica stands by"]
    return [
        f"assigned: {describe_partitions(keys)} -> "
        + (f"any of {worker_count} workers" if worker is None else f"worker {worker}")
        for worker, keys in by_worker.items()
    ]
