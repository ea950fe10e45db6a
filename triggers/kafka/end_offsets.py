"""End offsets of partitions that nobody fetches now, for their lag. A fetch tells those of the others."""

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
    """End offsets by partition. Lag is to grow also while a partition is halted, or waits for acks."""

    def __init__(self) -> None:
        self._known: dict[PartitionKey, int] = {}

    def get(self, key: PartitionKey) -> int:
        """Return the end offset; 0 where it isn't known."""
        return self._known.get(key, 0)

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """Forget partitions that left, or whose logs were cut."""
        for key in keys:
            self._known.pop(key, None)

    async def follow_forever(
        self, consumer: AIOKafkaConsumer, assigned: Mapping[PartitionKey, AssignedPartition]
    ) -> None:
        """Ask every few seconds about those of `assigned` that are not fetched."""
        while True:
            # Slowly: it is for lag only, and fetches tell the ends of all partitions that move.
            await asyncio.sleep(INTERVAL_SECONDS)
            if standing := [key for key, partition in assigned.items() if not partition.to_fetch]:
                ends = await _ends_of(consumer, standing)
                self._known |= {key: end for key, end in ends.items() if key in assigned}


async def _ends_of(consumer: AIOKafkaConsumer, keys: Iterable[PartitionKey]) -> Mapping[PartitionKey, int]:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            ends = await consumer.end_offsets([TopicPartition(*key) for key in keys])
    except (KafkaError, TimeoutError) as error:  # lag is only for people: the next question may tell
        logger.debug("where partitions end can't be asked (%r)", error)
        return {}
    return {PartitionKey(*tp): end for tp, end in ends.items()}
