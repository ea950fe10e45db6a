"""Partitions of a stream on this replica: from the moment that the group gives one to its last commit."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from headrace.runtime.dispatch.interface import Dispatch, Feed
from headrace.runtime.partitions.chunk import ChunkSlice
from headrace.runtime.partitions.flow_control import ReadAhead, StreamLimits, most_in_share, most_out_of_order
from headrace.runtime.partitions.key import PartitionKey, PartitionLog, describe_partitions
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.status import PartitionStatus, is_stuck, open_problem, status
from headrace.runtime.streams.committer import Committer
from headrace.runtime.streams.starting import new_partition, trusted
from headrace.runtime.streams.stream import StartOffsets, Stream
from headrace.runtime.wire.records import WireRecord

logger = logging.getLogger(__name__)

COMMIT_INTERVAL_SECONDS = 1.0
# With exactlyOnce messages wait for a commit.
_TRANSACTION_INTERVAL_SECONDS = 0.1
_COMMIT_TIMEOUT_SECONDS = 5.0
_METADATA = "what a commit's metadata has place for"
# What brokers take by default, which has place for MOST_OUT_OF_ORDER.
_PROBE_CHARS = 4096
STANDS_BY = "no partition is assigned to this replica: it stands by"


class Assignment(Feed):
    """The Feed of a dispatcher whose partitions a group shares out: from each assignment to its last commit.

    A partition is assigned (a task reads where it starts), begins, and is delivered until it is given back or
    starts anew. Different partitions may be at different steps at the same time.
    """

    def __init__(self, dispatch: Dispatch, stream: Stream, limits: StreamLimits) -> None:
        self.partitions: dict[PartitionKey, AssignedPartition] = {}
        """Partitions that are delivered now: from the reading of their start until they leave."""
        self.are_chunks = False
        """Whether the source brings undecoded chunks. Its fetching (Fetching.install) sets it."""
        self.decoded_record_bytes = 0
        """Bytes that a decoded record takes: the largest average of any fetch; 0 before the first one."""
        self.committer: Committer
        """The trigger sets it when it is connected: before that no partition is assigned."""
        self._dispatch = dispatch
        self._stream = stream
        self.produce = stream.produce  # type: ignore[method-assign]  # no hop for each message
        self._limits = limits
        self.bounds = limits.of_partition(dispatch.policy, dispatch.worker_count)
        """The limit of each partition, before bytes lower it."""
        self._max_buffered_bytes = limits.max_buffered_bytes
        self._ends: dict[PartitionKey, int] = {}
        self._logs: dict[PartitionKey, PartitionLog] = {}  # as last known, also of partitions that have left
        self._generation = -1
        self._tasks: asyncio.TaskGroup
        # Tasks that begin partitions; of each, all its keys, and the keys whose start isn't known yet.
        self._starting: dict[asyncio.Task[None], tuple[frozenset[PartitionKey], set[PartitionKey]]] = {}
        self._unreadable: set[PartitionKey] = set()  # assigned, but their start can't be read for now
        self._releases: dict[asyncio.Future[None], frozenset[PartitionKey]] = {}  # by each `give_back`
        self._revoke_count = 0  # revokes under way, or failed
        # For metrics of rebalances: when each partition was given back, if all were. Those that don't come
        # back are forgotten with the next assignment.
        self._left_at: dict[PartitionKey, float] = {}
        self._is_rebalance_measured = True
        dispatch.connect(self)

    # ---- assigned

    def on_assigned(self, keys: Collection[PartitionKey], generation: int, tasks: asyncio.TaskGroup) -> None:
        """Begin more partitions, in a task of `tasks`: no caller can wait until their starts are known."""
        self._generation, self._tasks = generation, tasks
        start = frozenset(keys), set(keys)
        task = tasks.create_task(self._start(*start), name="assignment")
        self._starting[task] = start
        task.add_done_callback(lambda task: self._starting.pop(task, None))

    async def _start(self, keys: frozenset[PartitionKey], left: set[PartitionKey]) -> None:
        """Read where the partitions in `left` start, and begin them, until all of `keys` have begun."""
        self._dispatch.on_assigned(keys)
        try:
            while True:
                await self._begin(await self._stream.read_starts(left), left)
                if not left:
                    return
                if left - self._unreadable:
                    self._unreadable |= left
                    logger.warning("%s: where to start can't be read yet", describe_partitions(left))
        finally:
            self._unreadable -= keys

    async def _begin(self, starts: StartOffsets, left: set[PartitionKey]) -> None:
        """Deliver the partitions whose starts are known, and take them out of `left`."""
        keys = starts.checkpoints.keys()
        self._unreadable -= keys
        self._ends |= starts.ends
        begun = {key: self._deliver_from(key, trusted(key, starts)) for key in sorted(keys)}
        left.difference_update(keys)
        self.partitions |= begun
        self._dispatch.lease.begin()
        self._dispatch.begin(list(begun.values()))
        self.committer.open(begun, starts.committed, self._generation)
        self._stream.on_started()
        self._measure_pauses(keys, left)
        _log_allocation(self._dispatch, self.partitions)
        if self._dispatch.policy.ordering != "partition":
            self.committer.probe(_PROBE_CHARS)
        # Start positions count as commits from now on: initialOffset must not be asked twice.
        await self.commit(begun.values())

    def _measure_pauses(self, keys: Collection[PartitionKey], left: Collection[PartitionKey]) -> None:
        """Observe how long `keys` stood in a rebalance, and forget all others that are not in `left`."""
        metrics, now = self.committer.metrics, time.monotonic()
        if self._left_at and not self._is_rebalance_measured:
            metrics.rebalance_seconds.observe(now - min(self._left_at.values()))
        self._is_rebalance_measured = True
        metrics.history.note("assigned", describe_partitions(keys))
        for key in keys:
            if (since := self._left_at.get(key)) is not None:
                metrics.stop_seconds.observe(now - since)
        self._left_at = {key: self._left_at[key] for key in left if key in self._left_at}

    def _deliver_from(self, key: PartitionKey, start: Checkpoint) -> AssignedPartition:
        """Seek to where a partition starts, and return a new object for it."""
        self._stream.seek(key, start.offset)
        log = self._logs[key] = self._logs.get(key, PartitionLog()).renamed(self._stream.log_id(key))
        policy, chunks = self._dispatch.policy, None
        if self.are_chunks:
            share_bytes = _share_of(self._max_buffered_bytes, self.partitions, self._starting.values())
            chunks = replace(self.bounds, read_ahead=ReadAhead.of(share_bytes, policy.batch))
        partition = new_partition(key, start, log, policy, chunks)
        if not policy.is_ranges:
            self._stream.on_room(partition)
        return partition

    # ---- given back, or made anew

    async def give_back(
        self, wait_seconds: float, late_ack_seconds: float, keys: Collection[PartitionKey] | None = None
    ) -> None:
        """Revoke partitions, and commit what they have settled; return when nothing of them is in flight.

        Partitions that another call is giving back are waited for as well. `keys` None: all partitions. Then
        those of other calls get no more time than the rest, and no commit goes out before the next
        assignment.
        """
        starts = self._end_starts(keys)
        gone = list(self.partitions) if keys is None else [key for key in keys if key in self.partitions]
        if gone:
            self.committer.metrics.history.note("revoked", describe_partitions(gone))
        if keys is None:  # if others stay, they go on: only a rebalance in which all stand is measured
            self._is_rebalance_measured = False
            self._left_at |= dict.fromkeys(gone, time.monotonic())
        partitions = [self.partitions.pop(key) for key in gone]
        if partitions:
            logger.info("revoked: %s", describe_partitions(gone))
        self._stream.on_left(gone)
        earlier = [it for it, its in self._releases.items() if keys is None or not its.isdisjoint(keys)]
        before = [*starts, *earlier]
        done = asyncio.get_running_loop().create_future()
        self._releases[done] = frozenset(gone)
        is_to_hurry = earlier and keys is None
        try:
            with self._dispatch.hurry(wait_seconds, late_ack_seconds) if is_to_hurry else nullcontext():
                self._revoke_count += 1
                await self._dispatch.revoke(partitions, wait_seconds, late_ack_seconds)
                # Not counted down after a failure: handlers may still run records of partitions that others
                # have by now, so the lease must not be lifted.
                self._revoke_count -= 1
                if not (self.partitions or self._revoke_count):
                    self._dispatch.lease.lift()
                if before:
                    await asyncio.wait(before)
            self._dispatch.on_revoked(keys)
            await self.commit(partitions)
            for partition in partitions:
                partition.is_replaced = True  # others have it from now on
        finally:
            del self._releases[done]
            done.set_result(None)
            if keys is None:
                self.committer.close()

    def _end_starts(self, keys: Collection[PartitionKey] | None) -> list[asyncio.Task[None]]:
        """Cancel the tasks that begin any of `keys` (None: all), and return them.

        Other partitions that such a task has not begun yet are begun by a new task.
        """
        ended = []
        for task, (its, _) in list(self._starting.items()):
            if keys is not None and its.isdisjoint(keys):
                continue
            task.cancel()
            ended.append(task)
            rest = its.difference(its if keys is None else keys, self.partitions)
            if rest:
                self.on_assigned(rest, self._generation, self._tasks)
        return ended

    async def restart(self, starts: Mapping[PartitionKey, Checkpoint], wait_seconds: float) -> None:
        """Drop the records of partitions whose logs were cut or made anew, and go on from `starts`."""
        for key, start in starts.items():
            partition = self.partitions.get(key)
            if partition is not None and start.offset < partition.ledger.position:
                self._logs[key] = self._logs[key].cut(start.offset)
        for key, partition in await self._drop(starts, wait_seconds):
            await self.committer.mark_stale(key)
            if self.partitions.get(key) is partition:
                self._ends.pop(key, None)  # of the log before, for acks that come ahead of a fetch
                self.partitions[key] = self._deliver_from(key, starts[key])
                self._dispatch.restart(self.partitions[key])

    async def start_anew(self, keys: Collection[PartitionKey], wait_seconds: float) -> None:
        """Drop the records of these partitions, and read again where they start, unless they leave first."""
        dropped = await self._drop(keys, wait_seconds)
        for key, _ in dropped:
            await self.committer.mark_stale(key)  # a commit of its dropped state may be on its way
        if again := [key for key, partition in dropped if self.partitions.get(key) is partition]:
            for key in again:
                del self.partitions[key]
            if not (self.partitions or self._revoke_count):
                self._dispatch.lease.lift()
            self.on_assigned(again, self._generation, self._tasks)

    async def _drop(
        self, keys: Iterable[PartitionKey], wait_seconds: float
    ) -> list[tuple[PartitionKey, AssignedPartition]]:
        """Revoke these partitions, and commit nothing more of them; return those that were here."""
        dropped = [(key, self.partitions[key]) for key in keys if key in self.partitions]
        for _, partition in dropped:
            partition.is_replaced = True  # first: a `give_back` meanwhile must commit nothing of it
        self._stream.on_left([key for key, _ in dropped])
        await self._dispatch.revoke([partition for _, partition in dropped], wait_seconds)
        return dropped

    def go_on_from(self, partition: AssignedPartition, offset: int) -> None:
        """Fetch a partition from `offset` on, as the log has no more below. Records fetched before stay."""
        if _is_here(partition, self.partitions):
            partition.advance(offset)
            self._stream.seek(partition.key, offset)
            self._stream.on_room(partition)

    # ---- records and commits

    def add(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Add records that were fetched. The caller then calls `dispatch`."""
        record_bytes = self._dispatch.add(partition, records)
        if not record_bytes:
            return  # all were acked before they came
        is_decoded = not isinstance(records, ChunkSlice)
        if is_decoded:
            self.decoded_record_bytes = max(self.decoded_record_bytes, record_bytes)
        share_bytes = _share_of(self._max_buffered_bytes, self.partitions, self._starting.values())
        most = most_in_share(share_bytes, record_bytes, is_decoded=is_decoded, are_chunks=self.are_chunks)
        partition.limit = self.bounds.within(most, partition.limit.read_ahead)

    async def commit_forever(self, seconds: float = COMMIT_INTERVAL_SECONDS) -> None:
        """Commit what has changed, every `seconds`; with exactlyOnce more often."""
        if self._dispatch.policy.exactly_once:
            seconds = _TRANSACTION_INTERVAL_SECONDS
        while True:
            await asyncio.sleep(seconds)
            self._dispatch.sync_progress()
            await self._skip_gaps()
            await self.commit(self.partitions.values())

    async def _skip_gaps(self) -> None:
        """Skip offsets at the end of a partition that hold no record (control records, compaction).

        So they count as no lag, and a plan that ends in such offsets doesn't wait for them.
        """
        for key, partition in list(self.partitions.items()):
            if partition.is_replaced:
                continue
            if partition.lane.is_idle or partition.missing_of_plan:
                ledger, position = partition.ledger, await self._stream.position(key)
                if partition.ledger is ledger:  # otherwise it began anew during the wait
                    partition.advance(position)
        self._dispatch.dispatch()

    # ---- Feed

    def on_room(self, partition: AssignedPartition) -> None:
        """Have the stream fetch more of the partition, or less."""
        if _is_here(partition, self.partitions):
            self._stream.on_room(partition)

    def end_of(self, partition: AssignedPartition) -> int:
        """Return the partition's end by the last fetch; before the first one, by its assignment."""
        return max(self._ends.get(partition.key, 0), self._stream.end_of(partition.key))

    def limit_of(self, partition: AssignedPartition) -> str:
        """Return what keeps more of a partition from being handed out, in words for people, or ''.

        Mostly that is the name of a setting.
        """
        if partition.is_out_of_order:
            return _METADATA
        if not partition.waits_for_acks:
            return ""
        if partition.lane.buffer.holds_ranges:
            return "one range at a time, with delivery: ranges,"
        is_less = partition.limit.in_flight < self.bounds.in_flight
        return "maxBufferedBytes" if is_less else self._limits.name

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """Commit these now; return whether all that has to survive this process is safe."""
        is_done = await self.committer.commit(partitions, _COMMIT_TIMEOUT_SECONDS)
        # A store that takes less text than was thought can tell of fewer records that have overtaken others.
        out_of_order = most_out_of_order(self.committer.max_chars)
        if self.bounds.out_of_order != out_of_order:
            self.bounds = replace(self.bounds, out_of_order=out_of_order)
            for partition in self.partitions.values():
                partition.limit = replace(partition.limit, out_of_order=out_of_order)
        return is_done

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Write a dead letter to where this kind of trigger keeps them."""
        return await self._stream.write_dead_letter(partition, record, reason, attempts)

    def refetch(self, partition: AssignedPartition, offset: int) -> bool:
        """Seek back to `offset`: the client drops all that it has fetched ahead. False if it has left."""
        if not _is_here(partition, self.partitions):
            return False
        self._stream.seek(partition.key, offset)
        return True

    def retry_unreadable(self, partition: AssignedPartition) -> None:
        """Fetch the unreadable record once more: the fetch that failed has sought back to it."""
        partition.why_cut_off = ""
        self.on_room(partition)

    def skip_unreadable(self, partition: AssignedPartition) -> None:
        """Go on behind the unreadable record."""
        if not _is_here(partition, self.partitions):
            return
        offset = partition.ledger.position
        logger.warning("%s offset %d, which can't be read, is skipped by hand", partition, offset)
        partition.why_cut_off = ""
        self.go_on_from(partition, offset + 1)

    # ---- what others see

    def statuses(self) -> tuple[PartitionStatus, ...]:
        """Return a row for each partition."""
        return tuple(
            status(
                partition,
                worker=self._dispatch.worker_of(key),
                committed=self.committer.committed(key),
                limited_by=self.limit_of(partition),
                end=self.end_of(partition),
            )
            for key, partition in self.partitions.items()
        )

    def problems(self, of_group: str = "") -> list[str]:
        """Return why no records flow, which the group may say, or why some don't; one line each."""
        if not (of_group or self.partitions or self._starting or self._releases):
            of_group = STANDS_BY
        waiting = [f"{key}: where to start can't be read yet" for key in sorted(self._unreadable)]
        stuck = [open_problem(each) for each in self.partitions.values() if is_stuck(each)]
        return [*filter(None, [of_group]), *waiting, *stuck]


def _is_here(partition: AssignedPartition, partitions: Mapping[PartitionKey, AssignedPartition]) -> bool:
    """Whether the partition is delivered, and no newer object is about to take its place."""
    return partitions.get(partition.key) is partition and not partition.is_replaced


def _share_of(
    most_bytes: int,
    here: Collection[PartitionKey],
    starting: Iterable[tuple[frozenset[PartitionKey], set[PartitionKey]]],
) -> int:
    """Return how many bytes one partition may hold: all that are here, or are starting, share alike."""
    return most_bytes // max(1, len(here) + sum(len(left) for _, left in starting))


def _log_allocation(dispatch: Dispatch, partitions: Iterable[PartitionKey]) -> None:
    """Log which partitions go to which worker."""
    by_worker: dict[int | None, list[PartitionKey]] = {}
    for key in partitions:
        by_worker.setdefault(dispatch.worker_of(key), []).append(key)
    for worker, keys in by_worker.items():
        where = f"any of {dispatch.worker_count} workers" if worker is None else f"worker {worker}"
        logger.info("assigned: %s -> %s", describe_partitions(keys), where)
    if not by_worker:
        logger.info("assigned: no partitions; this replica stands by")
