"""The shards that a replica holds, as their assignment sees them: starts, positions, ends, dead letters."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from headrace.runtime.dispatch.interface import Dispatch, Feed
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.assignment import Assignment
from headrace.runtime.streams.stream import StartOffsets
from headrace.runtime.v3io.client import V3ioClient, V3ioError
from headrace.runtime.v3io.retry import LogThrottle, backoff_seconds
from headrace.runtime.wire.records import WireRecord
from headrace.triggers.v3io.dead_letters import V3ioDeadLetters
from headrace.triggers.v3io.empty_shards import EmptyShards
from headrace.triggers.v3io.settings import V3ioSettings
from headrace.triggers.v3io.shard_offsets import FIRST_OFFSET, ShardOffsets, ShardState
from headrace.triggers.v3io.shard_reader import ShardReader, ShardReaderContext

logger = logging.getLogger(__name__)

_REPORT_EVERY = 10


class V3ioStream:
    """A Stream (runtime/streams/assignment.py) of shards, with one reader for each that is held.

    Owns the group's offsets, the list of empty shards and the dead letters.
    """

    def __init__(
        self,
        settings: V3ioSettings,
        client: V3ioClient,
        commit_client: V3ioClient,
        generation: Callable[[], int | None],
        on_started: Callable[[], None],
    ) -> None:
        """`generation` is the membership's; None while it isn't renewed. Connects to nothing yet."""
        stream, group = settings.stream, settings.consumer_group
        self._settings = settings
        self._client = client
        self.offsets = ShardOffsets(commit_client, stream, group, generation, self._look_up_location)
        self._dead_letters = V3ioDeadLetters(client, settings.dead_letter_stream)
        # With seekTo earliest, each shard without a commit is read from its start anyway.
        self._empty_shards = (
            None if settings.seek_to == "earliest" else EmptyShards(commit_client, stream, group)
        )
        self._readers: dict[PartitionKey, ShardReader] = {}
        self._context: ShardReaderContext
        self.on_started = on_started
        self.produce = Feed().produce  # a v3io trigger takes no messages of handlers

    def start(self, assignment: Assignment, dispatch: Dispatch, tasks: asyncio.TaskGroup) -> None:
        """Have readers run in `tasks` from now on. Called before any shard is assigned."""
        self._context = ShardReaderContext(
            self._client, self._settings, self.offsets, assignment, dispatch, tasks
        )

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        """Read the group's commits; shards without one start by seekTo, and empty ones at their first record.

        Tries again until the web API answers.
        """
        failures = LogThrottle(_REPORT_EVERY)
        for pause in backoff_seconds():
            try:
                found = await asyncio.gather(*(self.offsets.read(key.partition) for key in keys))
                states = {key: it for key, it in zip(keys, found, strict=True) if it is not None}
                from_first = await self._read_from_first_record(keys, states)
                break
            except V3ioError as error:
                if failures.should_log():
                    logger.warning("where to start can't be read yet (%s); trying again", error)
                await asyncio.sleep(pause)
        # Commits that are still under way are for the shards found before; `seek` begins with these.
        self.offsets.expect(states)
        committed = {key: it.committed for key, it in states.items() if it.committed is not None}
        ends = {key: states[key].end if key in states else FIRST_OFFSET for key in keys}
        starts = {key: Checkpoint(FIRST_OFFSET if key in from_first else end) for key, end in ends.items()}
        return StartOffsets(starts | committed, committed, ends)

    async def _read_from_first_record(
        self, keys: Collection[PartitionKey], states: Mapping[PartitionKey, ShardState]
    ) -> Collection[PartitionKey]:
        """Return the shards that start at their first record where they have no commit."""
        if self._empty_shards is None:
            return keys
        by_shard = {key.partition: key for key in keys}
        # Noted before anything is read: a shard that appears while no replica runs is known as new then.
        await self._empty_shards.add([key.partition for key in keys if key not in states])
        uncommitted = [key.partition for key, it in states.items() if it.committed is None]
        return {by_shard[shard] for shard in await self._empty_shards.among(uncommitted)}

    async def position(self, key: PartitionKey) -> int:
        """Return the next offset that a read would bring; sequence numbers have no gaps."""
        reader = self._readers.get(key)
        return reader.offset if reader else 0

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Read from `offset` on."""
        if reader := self._readers.get(key):
            reader.seek(offset)
        else:
            self.offsets.begin(key)
            self._readers[key] = ShardReader(key, offset, self._context)

    def log_id(self, key: PartitionKey) -> str:
        """Return the inode number of the shard, which is another one where the stream was made anew."""
        inode = self.offsets.inode_of(key)
        return "" if inode is None else str(inode)

    def on_room(self, partition: AssignedPartition) -> None:
        """Read the shard, or pause it: how much more of it may be held has changed."""
        # A shard that was given back while a read of it was under way has no reader any more.
        if reader := self._readers.get(partition.key):
            reader.on_room(partition)

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Stop reading these shards."""
        for key in keys:
            if reader := self._readers.pop(key, None):
                reader.stop()

    def end_of(self, key: PartitionKey) -> int:
        """Return where the shard ends according to the last read; 0 where there was none."""
        reader = self._readers.get(key)
        return reader.end if reader else 0

    def problems(self) -> list[str]:
        """Return why shards can't be read, one line each."""
        return [reader.problem for _, reader in sorted(self._readers.items()) if reader.problem]

    def _look_up_location(self, key: PartitionKey) -> None:
        # Only the location is dropped: the reader finds at its next look that the shard is another one.
        if reader := self._readers.get(key):
            reader.look_up_location()

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Write the failed record to the dead-letter stream; return whether it is there. BrokerError."""
        await self._dead_letters.write(record, partition.key, reason, attempts)
        return True
