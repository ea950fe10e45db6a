"""Where the logs end of partitions that nobody fetches now: a fetch says it of the others."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.partition import AssignedPartition

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
_ANSWER_SECONDS = 2.0


class EndOffsets:
    """For lag, which is to grow also while a partition is halted, or waits for acks."""

    def __init__(self, assigned: Mapping[PartitionKey, AssignedPartition]) -> None:
        self._assigned = assigned
        self._known: dict[PartitionKey, int] = {}

    def get(self, key: PartitionKey) -> int:
        """0 where it isn't known."""
        return self._known.get(key, 0)

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """They left, or their logs were cut."""
        for key in keys:
            self._known.pop(key, None)

    async def follow_forever(self, consumer: AIOKafkaConsumer) -> None:
        """Ask every few seconds."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            if standing := [key for key, partition in self._assigned.items() if not partition.room]:
                await self._ask(consumer, standing)

    async def _ask(self, consumer: AIOKafkaConsumer, standing: Iterable[PartitionKey]) -> None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                ends = await consumer.end_offsets([TopicPartition(*key) for key in standing])
        except (KafkaError, TimeoutError) as error:  # it is only for people: the next look may tell
            logger.debug("where partitions end can't be asked (%r)", error)
            return
        self._known |= {PartitionKey(*tp): end for tp, end in ends.items() if tp in self._assigned}
