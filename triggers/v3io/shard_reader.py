"""Reading one shard, as long as there is room, and what to do where a read fails."""

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
"""For handlers that are in records of a stream that is no more."""
_REPORT_EVERY = 30


@dataclass(frozen=True, slots=True)
class ShardReaderContext:
    """What all readers of an assignment share. Their tasks are in `tasks`."""

    client: V3ioClient
    settings: V3ioSettings
    offsets: ShardOffsets
    assignment: Assignment
    dispatch: Dispatch
    tasks: asyncio.TaskGroup


class ShardReader:
    """`offset`: the next one that a read brings. `end`: where the shard ends, as far as reads have said."""

    def __init__(self, key: PartitionKey, offset: int, around: ShardReaderContext) -> None:
        self.key = key
        self.offset = offset
        self.end = 0
        self.problem = ""
        """Why it can't be read, where it can't."""
        self._around = around
        self._location = ""  # of the next read; empty: it has to be asked for
        self._seek_count = 0
        self._is_absent = False  # it had no record when it was last looked at
        self._partition: AssignedPartition
        self._has_room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ---- what an assignment asks

    def seek(self, offset: int) -> None:
        """Go on from there. What is being read now is dropped."""
        self.offset = offset
        self._seek_count += 1
        self.look_again()

    def look_again(self) -> None:
        """Where it was may not be there any more."""
        self._location = ""

    def on_room(self, partition: AssignedPartition) -> None:
        """Read more of it, or not: as much at a time as one read brings."""
        self._partition = partition
        if partition.room:
            self._has_room.set()
        else:
            self._has_room.clear()
        if self._task is None:
            self._task = self._around.tasks.create_task(self._read_forever(), name=f"read {self.key}")

    def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()

    # ---- reads

    async def _read_forever(self) -> None:
        polling_seconds = self._around.settings.polling_interval_ms / 1000
        while True:
            await self._has_room.wait()
            has_more = await self._read()
            # A full read is followed by the next one at once: others must get a turn all the same.
            await asyncio.sleep(0 if has_more else polling_seconds)

    async def _read(self) -> bool:
        """One read; whether there was more than it could bring."""
        seek_count, partition = self._seek_count, self._partition
        limit = max(1, min(self._around.settings.read_batch_size, partition.room))
        if not self._location:
            await self._locate()
        if seek_count != self._seek_count:
            return True
        fetched = await self._patiently(lambda: self._get(limit))
        if fetched is None or seek_count != self._seek_count:
            return fetched is not None
        self._location = fetched.next_location
        records = [record_of(it) for it in fetched.records if it.sequence >= self.offset]
        if records:
            self.offset = records[-1].offset + 1
            self.end = self.offset + fetched.behind_count
            self._around.assignment.add(partition, records)
            self._around.dispatch.dispatch()
            self.on_room(partition)
        self.end = max(self.end, self.offset)
        return bool(fetched.records) and (len(fetched.records) >= limit or fetched.behind_count > 0)

    async def _get(self, limit: int) -> ShardRead | None:
        """None where what was there is gone: `_locate` finds the rest."""
        around = self._around
        try:
            return await get(around.client, around.settings.place, self.key.partition, self._location, limit)
        except V3ioRefusedError as refused:
            if refused.is_forbidden:
                raise
            logger.warning("%s: reading failed (%s); looking for its next record", self.key, refused.reason)
            self.look_again()
            return None

    # ---- where to read

    async def _locate(self) -> None:
        """Where its next record is, however long that takes to be known."""
        seek_count = self._seek_count
        location = await self._patiently(self._find)
        while location is None:
            await asyncio.sleep(self._around.settings.sequence_number_shard_wait_interval_seconds)
            location = await self._patiently(self._find)
        if self._is_absent:
            await self._on_appeared()
        if seek_count == self._seek_count:
            self._location = location

    async def _find(self) -> str | None:
        """A location; None where there is no shard yet."""
        state = await self._around.offsets.read(self.key.partition)
        if state is None:
            self._is_absent = True
            return None
        if self._is_another(state):
            await self._begin_anew(state)
        if self.offset > FIRST_OFFSET:
            try:
                return await self._seek("SEQUENCE", StartingSequenceNumber=self.offset)
            except V3ioRefusedError as refused:
                if refused.is_forbidden or refused.is_absent:
                    raise
                logger.warning("%s: offset %d has expired: what is left begins later", self.key, self.offset)
        return await self._seek("EARLIEST")

    async def _seek(self, kind: str, **at: int) -> str:
        return await seek(self._around.client, self._around.settings.place, self.key.partition, kind, **at)

    def _is_another(self, state: ShardState) -> bool:
        """Not the one that was read until now."""
        before = self._around.offsets.inode_of(self.key)
        is_other = before not in {None, state.inode}
        return is_other or state.end < self.offset or (self._is_absent and self.offset > FIRST_OFFSET)

    async def _on_appeared(self) -> None:
        """Commit where it began before its first record is handed out: seekTo must not be asked again."""
        assignment = self._around.assignment
        await assignment.committer.mark_stale(self.key)
        for pause in backoff_seconds():
            if await assignment.commit([self._partition]):
                break
            await asyncio.sleep(pause)
        self._is_absent = False

    async def _begin_anew(self, state: ShardState) -> None:
        message = (
            "%s: offset %d was to come, and the stream was made anew: it is read from its start, to offset %d"
        )
        logger.error(message, self.key, self.offset, state.end)
        around = self._around
        around.offsets.expect({self.key: state})
        restart = around.assignment.restart({self.key: Checkpoint(FIRST_OFFSET)}, _RESTART_SECONDS)
        around.tasks.create_task(restart, name=f"restart {self.key}")
        await asyncio.Event().wait()  # it ends this task, and begins another one

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Until it is answered."""
        failures = LogThrottle(_REPORT_EVERY)
        while True:
            try:
                result = await work()
            except V3ioError as error:
                self.problem = f"{self.key} can't be read: {error}"
                if failures.is_news():
                    logger.warning("%s; trying again", self.problem)
                await asyncio.sleep(random.uniform(0, _RETRY_SECONDS))  # noqa: S311  # no secret
            else:
                self.problem = ""
                return result
