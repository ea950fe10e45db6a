"""A group's shards, as their assignment sees them: starts, positions, ends, dead letters."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from headrace.runtime.dispatch.interface import NoFeed
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.assignment import StartOffsets
from headrace.runtime.v3io.client import V3ioError
from headrace.runtime.v3io.retry import LogThrottle, backoff_seconds
from headrace.runtime.wire.records import WireRecord
from headrace.triggers.v3io.dead_letters import V3ioDeadLetters
from headrace.triggers.v3io.empty_shards import EmptyShards
from headrace.triggers.v3io.shard_offsets import FIRST_OFFSET, ShardOffsets, ShardState
from headrace.triggers.v3io.shard_reader import ShardReader, ShardReaderContext

logger = logging.getLogger(__name__)

_REPORT_EVERY = 10


class V3ioStream:
    """Keeps Stream, once it has its readers' surroundings."""

    around: ShardReaderContext

    def __init__(
        self,
        offsets: ShardOffsets,
        dead_letters: V3ioDeadLetters,
        awaited: EmptyShards | None,
        on_started: Callable[[], None],
    ) -> None:
        """`awaited`: with seekTo latest; None: every shard without a commit is read from its start."""
        self._offsets = offsets
        self._dead_letters = dead_letters
        self._awaited = awaited
        self._readers: dict[PartitionKey, ShardReader] = {}
        self.on_started = on_started
        self.produce = NoFeed().produce  # a stream like this takes no messages of handlers
        offsets.on_another = self._look_again

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        """The group's commits, or seekTo. A shard without a record is read from its first one."""
        failures = LogThrottle(_REPORT_EVERY)
        for pause in backoff_seconds():
            try:
                found = await asyncio.gather(*(self._offsets.read(key.partition) for key in keys))
                states = {key: it for key, it in zip(keys, found, strict=True) if it is not None}
                news = await self._without_history(keys, states)
                break
            except V3ioError as error:
                if failures.is_news():
                    logger.warning("where to start can't be read yet (%s); trying again", error)
                await asyncio.sleep(pause)
        self._offsets.expect(states)
        committed = {key: it.committed for key, it in states.items() if it.committed is not None}
        ends = {key: states[key].end if key in states else FIRST_OFFSET for key in keys}
        first = {key: Checkpoint(FIRST_OFFSET if key in news else end) for key, end in ends.items()}
        return StartOffsets(first | committed, committed, ends)

    async def _without_history(
        self, keys: Collection[PartitionKey], states: Mapping[PartitionKey, ShardState]
    ) -> Collection[PartitionKey]:
        """What is read from its first record where it has no commit."""
        if self._awaited is None:
            return keys
        by_shard = {key.partition: key for key in keys}
        await self._awaited.add([key.partition for key in keys if key not in states])
        undone = [key.partition for key, it in states.items() if it.committed is None]
        return {by_shard[shard] for shard in await self._awaited.among(undone)}

    async def position(self, key: PartitionKey) -> int:
        """The next offset that a read would bring; sequence numbers have no gaps."""
        reader = self._readers.get(key)
        return reader.offset if reader else 0

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Read from there on."""
        if reader := self._readers.get(key):
            reader.seek(offset)
        else:
            self._offsets.begin(key)
            self._readers[key] = ShardReader(key, offset, self.around)

    def log_id(self, key: PartitionKey) -> str:
        """Of its shard, which is another one where the stream was made anew."""
        inode = self._offsets.inode_of(key)
        return "" if inode is None else str(inode)

    def on_room(self, partition: AssignedPartition) -> None:
        """Read it, or not."""
        if reader := self._readers.get(partition.key):  # else it has left, amid a read
            reader.on_room(partition)

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Read these no more."""
        for key in keys:
            if reader := self._readers.pop(key, None):
                reader.stop()

    def end_of(self, key: PartitionKey) -> int:
        """As the last read said; 0 where none has."""
        reader = self._readers.get(key)
        return reader.end if reader else 0

    def problems(self) -> list[str]:
        """Shards that can't be read."""
        return [reader.problem for _, reader in sorted(self._readers.items()) if reader.problem]

    def _look_again(self, key: PartitionKey) -> None:
        if reader := self._readers.get(key):
            reader.look_again()

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """To the stream for that."""
        await self._dead_letters.write(record, partition.key, reason, attempts)
        return True
