"""What this replica has of a stream: from the group's word that a partition is ours to its last commit."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

from headrace.runtime.config.delivery_policy import MAX_EVENTS, BatchPolicy
from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.partitions.chunk import ChunkSlice
from headrace.runtime.partitions.flow_control import (
    ReadAhead,
    StreamLimits,
    decoded_in,
    is_out_of_order,
    missing_of_plan,
    most_out_of_order,
)
from headrace.runtime.partitions.key import PartitionKey, PartitionLog, describe_partitions
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.pending_produces import DeliveryCallback
from headrace.runtime.partitions.partition import AssignedPartition, of_chunks, of_keys, of_ranges, of_records
from headrace.runtime.partitions.status import PartitionStatus, is_stuck, open_problem, status
from headrace.runtime.streams.committer import Committer
from headrace.runtime.streams.rebalance_pauses import RebalancePauses
from headrace.runtime.wire.produce import Message
from headrace.runtime.wire.records import WireRecord

logger = logging.getLogger(__name__)

COMMIT_INTERVAL_SECONDS = 1.0
_TRANSACTION_INTERVAL_SECONDS = 0.1
"""With exactlyOnce, whose messages wait for a commit."""
_COMMIT_TIMEOUT_SECONDS = 5.0
_METADATA = "what a commit's metadata has place for"
_PROBE_CHARS = 4096
"""Which is what brokers take by default, and has place for MOST_OUT_OF_ORDER."""
STANDS_BY = "no partition is assigned to this replica: it stands by"
AHEAD_BYTES = 1 << 19
"""Undecoded, per partition: enough to keep workers busy during a fetch."""
_BATCHES_PART = 3 / 8
"""Of its share, in batches: so much of it a partition gets whatever the others hold."""
# Of its share: the rest is for what comes undecoded, and among chunks also for records at workers.
_DECODED_PART, _DECODED_AMONG_CHUNKS_PART = 2, 4


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """By assigned partition: what to start from, what the group has committed, and where it ends by now.

    `ends` has those whose checkpoint says more than an offset, to judge it by; all, where acks may come ahead
    of a fetch.
    """

    checkpoints: Mapping[PartitionKey, Checkpoint]
    committed: Mapping[PartitionKey, Checkpoint]
    ends: Mapping[PartitionKey, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Start:
    keys: frozenset[PartitionKey]
    tasks: asyncio.TaskGroup
    left: set[PartitionKey]
    """Where to start isn't known yet of these."""


class Stream(Protocol):
    """What an assignment asks of the kind whose partitions it holds.

    The kind renews the dispatcher's lease as long as it is a member: with none, nothing is handed out.
    """

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        """Ask until the source answers: nothing may be delivered without. Raises what waiting can't mend.

        What can't be read for now (nobody leads it) is left out, to be asked for again, but not all of it.
        """

    async def position(self, key: PartitionKey) -> int:
        """The next offset that a fetch would bring."""

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Fetch from there on."""

    def log_id(self, key: PartitionKey) -> str:
        """Of the log that was sought last: another one where it was made anew. Empty: the source has none."""

    def on_room(self, partition: AssignedPartition) -> None:
        """Fetch it, or not, and how much at most: its room has changed."""

    def on_started(self) -> None:
        """All that was assigned is delivered."""

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these no more."""

    def end_of(self, key: PartitionKey) -> int:
        """Where it ends, as far as fetches have said; 0 where they haven't."""

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """As Feed says."""

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        """As Feed says."""


class Assignment:
    """Keeps Feed. `partitions` holds what is delivered now: from the reading of its start to its leaving."""

    def __init__(self, dispatch: Dispatch, stream: Stream, limits: StreamLimits) -> None:
        self.partitions: dict[PartitionKey, AssignedPartition] = {}
        self.are_chunks = False
        """Its source brings undecoded chunks."""
        self.decoded_record_bytes = 0
        """What records of a fetch take each, decoded, by the average of the one with the largest; 0: none."""
        self.committer: Committer
        """Its owner sets it once it is connected."""
        self._dispatch = dispatch
        self._stream = stream
        self.produce = stream.produce
        self._limits = limits
        self.bounds = limits.of_partition(dispatch.policy, dispatch.worker_count)
        """Of each partition, as far as bytes allow it."""
        self._max_buffered_bytes = limits.max_buffered_bytes
        self._ends: dict[PartitionKey, int] = {}
        self._logs: dict[PartitionKey, PartitionLog] = {}  # as they were last, also of what has left since
        self._generation = -1
        self._tasks: asyncio.TaskGroup
        self._unreadable: set[PartitionKey] = set()  # assigned, and where to start isn't known for now
        self._releases: dict[asyncio.Future[None], frozenset[PartitionKey]] = {}
        self._revoke_count = 0  # under way
        self._starting: dict[asyncio.Task[None], _Start] = {}
        self._stops = RebalancePauses()
        dispatch.connect(self)

    # ---- the group's word

    def on_assigned(self, keys: Collection[PartitionKey], generation: int, tasks: asyncio.TaskGroup) -> None:
        """These are ours, besides those that are here. A task reads where they start: a caller can't wait."""
        self._generation, self._tasks = generation, tasks
        start = _Start(frozenset(keys), tasks, set(keys))
        task = tasks.create_task(self._start(start), name="assignment")
        self._starting[task] = start
        task.add_done_callback(lambda task: self._starting.pop(task, None))

    async def _start(self, start: _Start) -> None:
        self._dispatch.on_assigned(start.keys)
        left = start.left
        try:
            while True:
                await self._begin(await self._stream.read_starts(left), left)
                if not left:
                    return
                if left - self._unreadable:
                    self._unreadable |= left
                    logger.warning("%s: where to start can't be read yet", describe_partitions(left))
        finally:
            self._unreadable -= start.keys

    async def _begin(self, starts: StartOffsets, left: set[PartitionKey]) -> None:
        """Deliver what starts are known of; the others, which are `left`, may follow."""
        keys = starts.checkpoints.keys()
        self._unreadable -= keys
        self._ends |= starts.ends
        begun = {key: self._deliver_from(key, _believed(key, starts)) for key in sorted(keys)}
        left.difference_update(keys)
        self.partitions |= begun
        self._dispatch.lease.begin()
        self._dispatch.begin(list(begun.values()))
        self.committer.open(begun, starts.committed, self._generation)
        self._stream.on_started()
        self._stops.on_begun(keys, left, self.committer.metrics)
        _log_allocation(self._dispatch, self.partitions)
        if self._dispatch.policy.ordering != "partition":
            self.committer.probe(_PROBE_CHARS)
        # Start positions count as commits from now on: initialOffset must not be asked twice.
        await self.commit(begun.values())

    def _deliver_from(self, key: PartitionKey, start: Checkpoint) -> AssignedPartition:
        self._stream.seek(key, start.offset)
        log = self._logs[key] = self._logs.get(key, PartitionLog()).renamed(self._stream.log_id(key))
        policy = self._dispatch.policy
        if policy.is_ranges:
            partition = of_ranges(key, start)
            partition.log = log
            return partition
        if (plan := start.plan) is not None and (policy.batch is None or plan.count > MAX_EVENTS):
            # Made before the function was changed, or too long to be held: only its session is to be ended.
            start = replace(start, plan=_short_ones(plan, start.offset, policy.batch))
        if self.are_chunks:
            ahead = _ahead(self._share_bytes(), policy.batch)
            partition = of_chunks(key, start, 1, policy.ack_window_size, ahead)
            partition.bounds = self.bounds
        elif policy.ordering != "partition":
            partition = of_keys(key, start, 1, policy.ordering)
        else:
            # The first record says how large they are.
            partition = of_records(key, start, 1, policy.ack_window_size)
        partition.log = log
        self._stream.on_room(partition)
        return partition

    def _share_bytes(self) -> int:
        """What one partition may hold: of those that are here, and those whose start isn't known yet."""
        left = sum(len(start.left) for start in self._starting.values())
        return self._max_buffered_bytes // max(1, len(self.partitions) + left)

    async def give_back(
        self, wait_seconds: float, late_ack_seconds: float, keys: Collection[PartitionKey] | None = None
    ) -> None:
        """Nothing of these is in flight, and what they settled is committed, when this returns.

        Also where another call has begun to give them back. None is all of them, with what is being given
        back already, which gets no more time than these do; it closes the gate for commits until the next
        assignment.
        """
        starts = self._end_starts(keys)
        gone = list(self.partitions) if keys is None else [key for key in keys if key in self.partitions]
        self._stops.on_left(gone, self.committer.metrics, are_all=keys is None)
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
                self._revoke_count -= 1  # not where it fails: somebody else may have what still runs
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
        """They begin nothing more. What of one doesn't leave, and hasn't begun, starts anew."""
        ended = []
        for task, start in list(self._starting.items()):
            if keys is not None and start.keys.isdisjoint(keys):
                continue
            task.cancel()
            ended.append(task)
            rest = start.keys.difference(start.keys if keys is None else keys, self.partitions)
            if rest:
                self.on_assigned(rest, self._generation, start.tasks)
        return ended

    async def restart(self, starts: Mapping[PartitionKey, Checkpoint], wait_seconds: float) -> None:
        """Their logs were cut, or made anew: what is here of them is dropped, and they go on elsewhere."""
        for key, start in starts.items():
            partition = self.partitions.get(key)
            if partition is not None and start.offset < partition.ledger.position:
                self._logs[key] = self._logs[key].cut(start.offset)
        for key, partition in await self._drop(starts, wait_seconds):
            await self.committer.mark_stale(key)
            if self.partitions.get(key) is partition:
                self._ends.pop(key, None)  # it is for acks that come ahead of a fetch, of the log before
                self.partitions[key] = self._deliver_from(key, starts[key])
                self._dispatch.restart(self.partitions[key])

    async def start_anew(self, keys: Collection[PartitionKey], wait_seconds: float) -> None:
        """What is here of them is dropped, and where they start is read again: they may leave before that."""
        dropped = await self._drop(keys, wait_seconds)
        for key, _ in dropped:
            await self.committer.mark_stale(key)  # a commit of what was here may be on its way
        if again := [key for key, partition in dropped if self.partitions.get(key) is partition]:
            for key in again:
                del self.partitions[key]
            if not (self.partitions or self._revoke_count):
                self._dispatch.lease.lift()
            self.on_assigned(again, self._generation, self._tasks)

    async def _drop(
        self, keys: Iterable[PartitionKey], wait_seconds: float
    ) -> list[tuple[PartitionKey, AssignedPartition]]:
        """Nothing of these is in flight, nor will be committed. They keep their places."""
        dropped = [(key, self.partitions[key]) for key in keys if key in self.partitions]
        for _, partition in dropped:
            partition.is_replaced = True  # at once: whoever gives it back meanwhile commits nothing of it
        self._stream.on_left([key for key, _ in dropped])
        await self._dispatch.revoke([partition for _, partition in dropped], wait_seconds)
        return dropped

    def go_on_from(self, partition: AssignedPartition, offset: int) -> None:
        """There is nothing more to fetch below it. What was fetched is handed out all the same."""
        if _is_here(partition, self.partitions):
            partition.advance(offset)
            self._stream.seek(partition.key, offset)
            self._stream.on_room(partition)

    # ---- records and commits

    def add(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """They were fetched. `dispatch` is for the caller to call."""
        if isinstance(records, ChunkSlice):
            self._dispatch.add(partition, records)
            part, record_bytes = 1, records.chunk.record_bytes
        else:
            before_count, before_bytes = decoded_in(partition)
            self._dispatch.add(partition, records)
            count, decoded_bytes = decoded_in(partition)
            if count <= before_count:
                return  # all were acked before they came
            # The buffers have measured them.
            part = _DECODED_AMONG_CHUNKS_PART if self.are_chunks else _DECODED_PART
            record_bytes = (decoded_bytes - before_bytes) // (count - before_count)
            self.decoded_record_bytes = max(self.decoded_record_bytes, record_bytes)
        most = max(1, self._share_bytes() // part // max(1, record_bytes))
        partition.bounds = self.bounds.within(most)

    async def commit_forever(self, seconds: float = COMMIT_INTERVAL_SECONDS) -> None:
        """Every so often, or more often, what has changed."""
        if self._dispatch.policy.exactly_once:
            seconds = _TRANSACTION_INTERVAL_SECONDS
        while True:
            await asyncio.sleep(seconds)
            self._dispatch.sync_progress()
            await self._skip_gaps()
            await self.commit(self.partitions.values())

    async def _skip_gaps(self) -> None:
        """Offsets without a record at the end of a partition (control records, compaction) leave no lag.

        And at the end of a plan they must not be waited for.
        """
        for key, partition in list(self.partitions.items()):
            if partition.is_replaced:
                continue
            if partition.lane.is_idle or missing_of_plan(partition):
                ledger, position = partition.ledger, await self._stream.position(key)
                if partition.ledger is ledger:  # else it was sent back meanwhile
                    partition.advance(position)
        self._dispatch.dispatch()

    # ---- Feed

    def on_room(self, partition: AssignedPartition) -> None:
        """Fetch more of it, or not."""
        if _is_here(partition, self.partitions):
            self._stream.on_room(partition)

    def end_of(self, partition: AssignedPartition) -> int:
        """By the last fetch; before the first one, where it ended when it was assigned."""
        return max(self._ends.get(partition.key, 0), self._stream.end_of(partition.key))

    def limit_of(self, partition: AssignedPartition) -> str:
        """By the setting's name."""
        if is_out_of_order(partition):
            return _METADATA
        if not partition.waits_for_acks:
            return ""
        if partition.lane.buffer.holds_ranges:
            return "one range at a time, with delivery: ranges,"
        is_less = partition.bounds.in_flight < self.bounds.in_flight
        return "maxBufferedBytes" if is_less else self._limits.name

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """One commit."""
        is_done = await self.committer.commit(partitions, _COMMIT_TIMEOUT_SECONDS)
        out_of_order = most_out_of_order(self.committer.max_chars)
        if self.bounds.out_of_order != out_of_order:
            self.bounds = replace(self.bounds, out_of_order=out_of_order)
            for partition in self.partitions.values():
                partition.bounds = replace(partition.bounds, out_of_order=out_of_order)
        return is_done

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Where the kind has dead letters."""
        return await self._stream.write_dead_letter(partition, record, reason, attempts)

    def refetch(self, partition: AssignedPartition, offset: int) -> bool:
        """The client drops what it has fetched ahead."""
        if not _is_here(partition, self.partitions):
            return False
        self._stream.seek(partition.key, offset)
        return True

    def retry_unreadable(self, partition: AssignedPartition) -> None:
        """Every fetch that fails seeks back to it."""
        partition.why_cut_off = ""
        self.on_room(partition)

    def skip_unreadable(self, partition: AssignedPartition) -> None:
        """Go on one offset further."""
        if not _is_here(partition, self.partitions):
            return
        offset = partition.ledger.position
        logger.warning("%s offset %d, which can't be read, is skipped by hand", partition, offset)
        partition.why_cut_off = ""
        self.go_on_from(partition, offset + 1)

    # ---- what others see

    def statuses(self) -> tuple[PartitionStatus, ...]:
        """A row for each partition."""
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
        """Why no records flow, which its group may say, or why some don't."""
        if not (of_group or self.partitions or self._starting or self._releases):
            of_group = STANDS_BY
        waiting = [f"{key}: where to start can't be read yet" for key in sorted(self._unreadable)]
        stuck = [open_problem(each) for each in self.partitions.values() if is_stuck(each)]
        return [*filter(None, [of_group]), *waiting, *stuck]


def _is_here(partition: AssignedPartition, partitions: Mapping[PartitionKey, AssignedPartition]) -> bool:
    """It is delivered, and no other one is about to take its place."""
    return partitions.get(partition.key) is partition and not partition.is_replaced


def _short_ones(plan: PlannedBatches, offset: int, batch: BatchPolicy | None) -> PlannedBatches:
    """Those that may come again as they were; where that is none, an empty one at `offset`."""
    short = [it for it in plan.batches if batch is not None and it[1] - it[0] <= MAX_EVENTS]
    return PlannedBatches.of(tuple(short), plan.session) or PlannedBatches(offset, offset, plan.session)


def _ahead(share_bytes: int, batch: BatchPolicy | None) -> ReadAhead:
    """Of chunks. One batch is filled while another one is handled, as far as its share goes."""
    ahead_bytes = min(AHEAD_BYTES, share_bytes)
    if batch is None:
        return ReadAhead(ahead_bytes)
    return ReadAhead(ahead_bytes, 2 * batch.size, max(ahead_bytes, int(share_bytes * _BATCHES_PART)))


def _believed(key: PartitionKey, starts: StartOffsets) -> Checkpoint:
    """Its checkpoint. Anybody in the group may have written it: the log's end bounds what it says."""
    told, end = starts.checkpoints[key], starts.ends.get(key)
    start = told if end is None else told.within(end)
    if start != told:
        line = "%s: the log ends at offset %d; what the group's commit says of later ones is dropped"
        logger.warning(line, key, end)
    return start


def _log_allocation(dispatch: Dispatch, partitions: Iterable[PartitionKey]) -> None:
    """Which partitions go to which worker."""
    by_worker: dict[int | None, list[PartitionKey]] = {}
    for key in partitions:
        by_worker.setdefault(dispatch.worker_of(key), []).append(key)
    for worker, keys in by_worker.items():
        where = f"any of {dispatch.worker_count} workers" if worker is None else f"worker {worker}"
        logger.info("assigned: %s -> %s", describe_partitions(keys), where)
    if not by_worker:
        logger.info("assigned: no partitions; this replica stands by")
