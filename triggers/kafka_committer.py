"""The one place that commits offsets."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partition import AssignedPartition

logger = logging.getLogger(__name__)


class Committer:
    """Explicit offsets only, one commit at a time, none between a revoke and the next assignment.

    A commit that is sent while the group rebalances waits for the whole round, then fails and costs the
    member its identity: so the gate is closed from the end of a revoke on.
    """

    def __init__(self, consumer: AIOKafkaConsumer, metrics: TriggerMetrics) -> None:
        self._consumer = consumer
        self._metrics = metrics
        self._committed: dict[TopicPartition, int] = {}
        self._is_open = False
        self._lock = asyncio.Lock()

    def open(self, committed: Mapping[TopicPartition, int]) -> None:
        """A new assignment: what the broker holds for its partitions."""
        self._committed = dict(committed)
        self._is_open = True

    def close(self) -> None:
        """No commits until `open`."""
        self._is_open = False

    def committed(self, partition: AssignedPartition) -> int | None:
        """What the last successful commit said of it."""
        return self._committed.get(TopicPartition(partition.topic, partition.partition))

    async def commit(self, partitions: Iterable[AssignedPartition], timeout_seconds: float) -> bool:
        """Commit what has moved. False where the broker refused or didn't answer in time.

        A refused commit loses nothing: its records are settled in the ledger, and delivered again elsewhere.
        """
        try:
            async with asyncio.timeout(timeout_seconds), self._lock:
                return await self._commit(partitions)
        except TimeoutError:
            self._failed(f"no answer within {timeout_seconds:g} s")
            return False

    async def _commit(self, partitions: Iterable[AssignedPartition]) -> bool:
        offsets = {
            TopicPartition(partition.topic, partition.partition): partition.ledger.committable
            for partition in partitions
            if partition.ledger.committable != self.committed(partition)
        }
        if not offsets or not self._is_open:
            return self._is_open
        try:
            await self._consumer.commit({tp: (offset, "") for tp, offset in offsets.items()})
        except KafkaError as error:
            self._failed(str(error) or type(error).__name__)
            return False
        self._committed |= offsets
        self._metrics.commits_done.inc()
        return True

    def _failed(self, why: str) -> None:
        self._metrics.commits_failed.inc()
        logger.warning("a commit failed (%s): what it covered is delivered again if this replica goes", why)
