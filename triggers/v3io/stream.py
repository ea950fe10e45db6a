"""A group's shards, as their assignment sees them: starts, positions, ends, dead letters."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from headrace.runtime.dispatch.interface import NoFeed
from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.assignment import Starts
from headrace.runtime.v3io.errors import V3ioError
from headrace.runtime.v3io.patience import pauses
from headrace.runtime.wire.frames import WireRecord
from headrace.triggers.v3io.dead_letters import DeadLetters
from headrace.triggers.v3io.reading import Reading
from headrace.triggers.v3io.shard_offsets import FIRST_OFFSET, ShardOffsets

logger = logging.getLogger(__name__)


class V3ioStream:
    """Keeps Stream, once it has a Reading."""

    reading: Reading

    def __init__(
        self,
        offsets: ShardOffsets,
        dead_letters: DeadLetters,
        on_started: Callable[[], None],
        *,
        is_from_earliest: bool,
    ) -> None:
        self._offsets = offsets
        self._dead_letters = dead_letters
        self._is_from_earliest = is_from_earliest
        self.on_started = on_started
        self.produce = NoFeed().produce  # a stream like this takes no messages of handlers

    async def read_starts(self, keys: Collection[PartitionKey]) -> Starts:
        """The group's commits, or seekTo. A shard without a record is read from its first one."""
        for pause in pauses():
            try:
                found = await asyncio.gather(*(self._offsets.read(key.partition) for key in keys))
                break
            except V3ioError as error:
                logger.warning("where to start can't be read yet (%s)", error)
                await asyncio.sleep(pause)
        by_key = dict(zip(keys, found, strict=True))
        committed = {key: it for key, (it, _) in by_key.items() if it is not None}
        ends = {key: (last or 0) + 1 for key, (_, last) in by_key.items()}
        first = {
            key: Checkpoint(FIRST_OFFSET if self._is_from_earliest else end) for key, end in ends.items()
        }
        return Starts(first | committed, committed, ends)

    async def position(self, key: PartitionKey) -> int:
        """By its reads."""
        return self.reading.position(key)

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Read from there on."""
        self.reading.seek(key, offset)

    def on_room(self, partition: AssignedPartition) -> None:
        """Read it, or not."""
        self.reading.on_room(partition)

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Read these no more."""
        self.reading.on_left(keys)

    def end_of(self, key: PartitionKey) -> int:
        """As the last read said."""
        return self.reading.end_of(key)

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """To the stream for that."""
        await self._dead_letters.write(record, partition.key, reason, attempts)
        return True
