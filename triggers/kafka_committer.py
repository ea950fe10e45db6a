"""The one place that commits offsets."""

import asyncio
import logging
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partition import AssignedPartition
from headrace.triggers.kafka_internals import generation
from headrace.triggers.kafka_start import Starts

logger = logging.getLogger(__name__)

_NOTHING = Starts({}, {}, {})


class Committer:
    """Explicit offsets only, one commit at a time, under the generation that gave the partitions.

    The gate is closed from the end of a revoke to the next assignment: a commit that is sent while the group
    rebalances waits for the whole round, then fails and costs the member its identity. And aiokafka tries a
    commit again under whatever generation is current, in which the partition may be somebody else's.
    """

    def __init__(self, consumer: AIOKafkaConsumer, metrics: TriggerMetrics) -> None:
        self._consumer = consumer
        self._metrics = metrics
        self._starts = _NOTHING
        self._committed: dict[TopicPartition, int] = {}
        self._generation: int | None = None
        self._lock = asyncio.Lock()

    def open(self, starts: Starts, generation: int) -> None:
        """A new assignment, given in `generation`: what the broker holds for its partitions."""
        self._starts = starts
        self._committed = dict(starts.committed)
        self._generation = generation if generation >= 0 else None

    def close(self) -> None:
        """No commits until `open`. One that is under way has ended before, as commits wait for each other."""
        self._generation = None

    def committed(self, partition: AssignedPartition) -> int | None:
        """What the last successful commit said of it."""
        return self._committed.get(TopicPartition(partition.topic, partition.partition))

    async def commit(self, partitions: Iterable[AssignedPartition], timeout_seconds: float) -> None:
        """Commit what has moved, if the broker takes it within `timeout_seconds`.

        A commit that fails loses nothing: what it covered is delivered again if this replica goes.
        """
        try:
            async with asyncio.timeout(timeout_seconds), self._lock:
                await self._commit(partitions)
        except TimeoutError:
            self._failed(f"no answer within {timeout_seconds:g} s")

    async def _commit(self, partitions: Iterable[AssignedPartition]) -> None:
        if self._generation is None or self._generation != generation(self._consumer):
            return  # no longer, or not yet, ours to say
        offsets = {
            TopicPartition(partition.topic, partition.partition): partition.ledger.committable
            for partition in partitions
            if partition.ledger.committable != self.committed(partition)
        }
        if not offsets:
            return
        metadata = self._starts.metadata
        try:
            await self._consumer.commit(
                {tp: (offset, metadata[tp.topic].encode()) for tp, offset in offsets.items()}
            )
        except KafkaError as error:
            self._failed(str(error) or type(error).__name__)
        else:
            self._committed |= offsets
            self._metrics.commits_done.inc()

    def _failed(self, why: str) -> None:
        self._metrics.commits_failed.inc()
        logger.warning("a commit failed (%s): what it covered is delivered again if this replica goes", why)
