"""The reader of one shard: reads as long as there is room, and what to do where a read fails."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.assignment import Assignment
from headrace.runtime.v3io.client import V3ioClient, V3ioError, V3ioRefusedError
from headrace.runtime.v3io.retry import LogThrottle, backoff_seconds
from headrace.runtime.v3io.streams import ShardRead, get, seek
from headrace.triggers.v3io.event import record_of
from headrace.triggers.v3io.settings import V3ioSettings
from headrace.triggers.v3io.shard_offsets import FIRST_OFFSET, ShardOffsets, ShardState

logger = logging.getLogger(__name__)
T = TypeVar("T")

_RETRY_SECONDS = 1.0
_RESTART_SECONDS = 5.0
"""How long handlers that are in records of a stream that is no more may take to end."""
_REPORT_EVERY = 30


@dataclass(frozen=True, slots=True)
class ShardReaderContext:
    """The objects that all readers of an assignment share. `tasks` runs their tasks."""

    client: V3ioClient
    settings: V3ioSettings
    offsets: ShardOffsets
    assignment: Assignment
    dispatch: Dispatch
    tasks: asyncio.TaskGroup


class ShardReader:
    """Reads one shard in a task of its own, from the first `on_room` to `stop`.

    `offset` is the next one that a read brings, `end` where the shard ends, as far as reads have said.
    """

    def __init__(self, key: PartitionKey, offset: int, context: ShardReaderContext) -> None:
        self.key = key
        self.offset = offset
        self.end = 0
        self.problem = ""
        """Why the shard can't be read; empty while it can."""
        self._context = context
        self._location = ""  # of the next read; empty: it has to be looked up
        self._seek_count = 0
        self._was_absent = False  # the shard had no record when it was last looked up
        self._partition: AssignedPartition
        self._has_room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ---- called by the assignment

    def seek(self, offset: int) -> None:
        """Go on from `offset`. A read that is under way is dropped."""
        self.offset = offset
        self._seek_count += 1
        self.look_up_location()

    def look_up_location(self) -> None:
        """Forget the location of the next read, so that it is looked up: it may not hold any more."""
        self._location = ""

    def on_room(self, partition: AssignedPartition) -> None:
        """Read while the partition has room, as much at a time as one read brings; pause while it hasn't."""
        self._partition = partition
        if partition.to_fetch:
            self._has_room.set()
        else:
            self._has_room.clear()
        # Not begun before: a reader is made by a seek, when its partition isn't known yet.
        if self._task is None:
            self._task = self._context.tasks.create_task(self._read_forever(), name=f"read {self.key}")

    def stop(self) -> None:
        """End the task that reads."""
        if self._task is not None:
            self._task.cancel()

    # ---- reads

    async def _read_forever(self) -> None:
        polling_seconds = self._context.settings.polling_interval_ms / 1000
        while True:
            await self._has_room.wait()
            has_more = await self._read()
            # A full read is followed by the next one at once: others must get a turn all the same.
            await asyncio.sleep(0 if has_more else polling_seconds)

    async def _read(self) -> bool:
        """Read once; return whether there was more than one read could bring."""
        # Each await may let a seek in: what was asked for before it is dropped.
        seek_count, partition = self._seek_count, self._partition
        limit = max(1, min(self._context.settings.read_batch_size, partition.to_fetch))
        if not self._location:
            await self._locate()
        if seek_count != self._seek_count:
            return True
        read = await self._retry(lambda: self._get(limit))
        # Without a location the next try comes after a pause; after a seek it comes at once.
        if read is None or seek_count != self._seek_count:
            return read is not None
        self._location = read.next_location
        records = [record_of(it) for it in read.records if it.sequence >= self.offset]
        if records:
            self.offset = records[-1].offset + 1
            self.end = self.offset + read.behind_count
            self._context.assignment.add(partition, records)
            self._context.dispatch.dispatch()
            self.on_room(partition)
        self.end = max(self.end, self.offset)
        return bool(read.records) and (len(read.records) >= limit or read.behind_count > 0)

    async def _get(self, limit: int) -> ShardRead | None:
        """Read at the location; return None where it doesn't hold any more, and have it looked up."""
        context = self._context
        try:
            return await get(
                context.client, context.settings.stream, self.key.partition, self._location, limit
            )
        except V3ioRefusedError as refused:
            if refused.is_forbidden:
                raise
            logger.warning("%s: reading failed (%s); looking for its next record", self.key, refused.reason)
            self.look_up_location()
            return None

    # ---- where to read

    async def _locate(self) -> None:
        """Find the location of the next record, however long that takes to be known."""
        seek_count = self._seek_count
        location = await self._retry(self._find_location)
        while location is None:
            await asyncio.sleep(self._context.settings.sequence_number_shard_wait_interval_seconds)
            location = await self._retry(self._find_location)
        # Before the location is used: the first record must not be handled while its start isn't committed.
        if self._was_absent:
            await self._commit_start()
        if seek_count == self._seek_count:
            self._location = location

    async def _find_location(self) -> str | None:
        """Return the location of the next record; None where there is no shard yet."""
        state = await self._context.offsets.read(self.key.partition)
        if state is None:
            self._was_absent = True
            return None
        if self._is_recreated(state):
            await self._restart(state)
        if self.offset > FIRST_OFFSET:
            try:
                return await self._seek("SEQUENCE", StartingSequenceNumber=self.offset)
            except V3ioRefusedError as refused:
                if refused.is_forbidden or refused.is_absent:
                    raise
                logger.warning("%s: offset %d has expired: what is left begins later", self.key, self.offset)
        return await self._seek("EARLIEST")

    async def _seek(self, kind: str, **at: int) -> str:
        context = self._context
        return await seek(context.client, context.settings.stream, self.key.partition, kind, **at)

    def _is_recreated(self, state: ShardState) -> bool:
        """Whether the shard is another one than was read until now: its stream was made anew."""
        before = self._context.offsets.inode_of(self.key)
        # A server may tell no inode numbers: an end below the next offset is a sign as well.
        is_other = before not in {None, state.inode}
        return is_other or state.end < self.offset or (self._was_absent and self.offset > FIRST_OFFSET)

    async def _commit_start(self) -> None:
        """Commit where an empty shard began before its first record is handed out.

        Without that commit a later start would ask seekTo again, and latest would skip those records.
        """
        assignment = self._context.assignment
        await assignment.committer.mark_stale(self.key)
        for pause in backoff_seconds():
            if await assignment.commit([self._partition]):
                break
            await asyncio.sleep(pause)
        self._was_absent = False

    async def _restart(self, state: ShardState) -> None:
        """Have the assignment restart the shard from its first record. Doesn't return."""
        message = (
            "%s: offset %d was to come, and the stream was made anew: it is read from its start, to offset %d"
        )
        logger.error(message, self.key, self.offset, state.end)
        context = self._context
        # Before the restart, whose seek takes what is noted here as the shard that commits are for.
        context.offsets.expect({self.key: state})
        restart = context.assignment.restart({self.key: Checkpoint(FIRST_OFFSET)}, _RESTART_SECONDS)
        context.tasks.create_task(restart, name=f"restart {self.key}")
        await asyncio.Event().wait()  # the restart cancels this task, and begins another one

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what `call` does, tried until the web API answers."""
        failures = LogThrottle(_REPORT_EVERY)
        while True:
            try:
                result = await call()
            except V3ioError as error:
                self.problem = f"{self.key} can't be read: {error}"
                if failures.should_log():
                    logger.warning("%s; trying again", self.problem)
                # At random: the readers of all shards fail at one moment, and shall not all come back at one.
                await asyncio.sleep(random.uniform(0, _RETRY_SECONDS))  # noqa: S311  # no secret
            else:
                self.problem = ""
                return result
