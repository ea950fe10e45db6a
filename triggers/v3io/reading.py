"""Reading shards: each by a task of its own, as long as there is room, and what to do where a read fails."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.assignment import Assignment
from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.errors import V3ioAwayError, V3ioRefusedError
from headrace.runtime.v3io.patience import Recurrence, pauses
from headrace.runtime.v3io.streams import Fetched, get, seek
from headrace.triggers.v3io.event import record_of
from headrace.triggers.v3io.settings.model import V3ioSettings
from headrace.triggers.v3io.shard import Shard
from headrace.triggers.v3io.shard_offsets import FIRST_OFFSET, ShardOffsets

logger = logging.getLogger(__name__)
T = TypeVar("T")

_RETRY_SECONDS = 1.0
_RESTART_SECONDS = 5.0
"""For handlers that are in records of a stream that is no more."""
_REPORT_EVERY = 30


class Reading:
    """Of all shards of an assignment."""

    def __init__(
        self,
        client: V3ioClient,
        settings: V3ioSettings,
        offsets: ShardOffsets,
        assignment: Assignment,
        dispatch: Dispatch,
    ) -> None:
        self._client = client
        self._settings = settings
        self._stream = settings.place
        self._offsets = offsets
        self._assignment = assignment
        self._dispatch = dispatch
        self.tasks: asyncio.TaskGroup
        self._shards: dict[PartitionKey, Shard] = {}

    # ---- what an assignment asks

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Read from there on."""
        shard = self._shards.get(key)
        if shard is None:
            self._shards[key] = Shard(key, offset)
        else:
            shard.seek(offset)

    def on_room(self, partition: AssignedPartition) -> None:
        """Read more of it, or not: as much at a time as one read brings."""
        shard = self._shards.get(partition.key)
        if shard is None:
            return  # it has left, amid a read
        shard.partition = partition
        if partition.room:
            shard.has_room.set()
        else:
            shard.has_room.clear()
        if shard.task is None:
            shard.task = self.tasks.create_task(self._read_forever(shard), name=f"read {partition.key}")

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Read these no more."""
        for key in keys:
            shard = self._shards.pop(key, None)
            if shard is not None and shard.task is not None:
                shard.task.cancel()

    def position(self, key: PartitionKey) -> int:
        """The next offset that a read would bring; sequence numbers have no gaps."""
        shard = self._shards.get(key)
        return shard.offset if shard else 0

    def end_of(self, key: PartitionKey) -> int:
        """0 where no read has said it."""
        shard = self._shards.get(key)
        return shard.end if shard else 0

    # ---- a shard

    async def _read_forever(self, shard: Shard) -> None:
        polling_seconds = self._settings.polling_interval_ms / 1000
        while True:
            await shard.has_room.wait()
            has_more = await self._read(shard)
            # A full read is followed by the next one at once: others must get a turn all the same.
            await asyncio.sleep(0 if has_more else polling_seconds)

    async def _read(self, shard: Shard) -> bool:
        """One read; whether there was more than it could bring."""
        seek_count, partition = shard.seek_count, shard.partition
        assert partition is not None
        limit = max(1, min(self._settings.read_batch_size, partition.room))
        if not shard.location:
            await self._locate(shard)
        if seek_count != shard.seek_count:
            return True
        fetched = await self._patiently(lambda: self._get(shard, limit), shard)
        if fetched is None or seek_count != shard.seek_count:
            return fetched is not None
        shard.location = fetched.next_location
        records = [record_of(it) for it in fetched.records if it.sequence >= shard.offset]
        if records:
            shard.offset = records[-1].offset + 1
            shard.end = shard.offset + fetched.behind_count
            self._assignment.add(partition, records)
            self._dispatch.dispatch()
            self.on_room(partition)
        shard.end = max(shard.end, shard.offset)
        return bool(fetched.records) and (len(fetched.records) >= limit or fetched.behind_count > 0)

    async def _get(self, shard: Shard, limit: int) -> Fetched | None:
        """None where what was there is gone: `_locate` finds the rest."""
        try:
            return await get(self._client, self._stream, shard.key.partition, shard.location, limit)
        except V3ioRefusedError as refused:
            if refused.is_forbidden:
                raise V3ioAwayError(str(refused)) from None
            logger.warning("%s: reading failed (%s); looking for its next record", shard.key, refused.reason)
            shard.location = ""
            return None

    async def _locate(self, shard: Shard) -> None:
        """Where its next record is, however long that takes to be known."""
        seek_count = shard.seek_count
        location = await self._patiently(lambda: self._location(shard), shard)
        while location is None:
            await asyncio.sleep(self._settings.sequence_number_shard_wait_interval_seconds)
            location = await self._patiently(lambda: self._location(shard), shard)
        if shard.is_absent:
            await self._on_appeared(shard)
        if seek_count == shard.seek_count:
            shard.location = location

    async def _location(self, shard: Shard) -> str | None:
        """None where there is no shard yet."""
        number, offset = shard.key.partition, shard.offset
        try:
            if shard.is_absent and offset > FIRST_OFFSET:  # what is there by now is all new
                await self._on_gone(shard)
            if offset > FIRST_OFFSET:
                at = {"StartingSequenceNumber": offset}
                return await seek(self._client, self._stream, number, "SEQUENCE", **at)
        except V3ioRefusedError as refused:
            if refused.is_forbidden:
                raise V3ioAwayError(str(refused)) from None
            if not refused.is_absent:
                await self._on_gone(shard)
        try:
            return await seek(self._client, self._stream, number, "EARLIEST")
        except V3ioRefusedError as refused:
            if not refused.is_absent:
                raise V3ioAwayError(str(refused)) from None
            shard.is_absent = True
            return None

    async def _on_appeared(self, shard: Shard) -> None:
        """Commit where it began before its first record is handed out: seekTo must not be asked again."""
        await self._assignment.committer.mark_stale(shard.key)
        for pause in pauses():
            if shard.partition is None or await self._assignment.commit([shard.partition]):
                break
            await asyncio.sleep(pause)
        shard.is_absent = False

    async def _on_gone(self, shard: Shard) -> None:
        """The next record isn't there: retention has passed it, or the stream was made anew."""
        _, last = await self._offsets.read(shard.key.partition)
        if last is None:
            return
        if last + 1 >= shard.offset and not shard.is_absent:
            logger.warning("%s: offset %d has expired: what is left begins later", shard.key, shard.offset)
            return
        message = (
            "%s: the stream ends at %d, and %d was to come: it was made anew, and is read from its start"
        )
        logger.error(message, shard.key, last + 1, shard.offset)
        restart = self._assignment.restart({shard.key: Checkpoint(FIRST_OFFSET)}, _RESTART_SECONDS)
        self.tasks.create_task(restart, name=f"restart {shard.key}")
        await asyncio.Event().wait()  # it ends this task, and begins another one

    async def _patiently(self, work: Callable[[], Awaitable[T]], shard: Shard) -> T:
        """Until it is answered."""
        failures = Recurrence(_REPORT_EVERY)
        while True:
            try:
                return await work()
            except V3ioAwayError as error:
                if failures.is_news():
                    logger.warning("%s: reading failed (%s); trying again", shard.key, error)
                await asyncio.sleep(random.uniform(0, _RETRY_SECONDS))  # noqa: S311  # no secret
