"""A replica: real dispatcher, assignment and committer, on a stream, a store and processes that are none."""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, cast
from uuid import UUID

from checks import Delivery, History
from fake_worker import FakeProcess, Machine
from group import Group, StaleEpochError, shown_id
from late_commits import LateCommits
from model_client import ModelTransactions
from shape import Shape

from headrace.runtime.dispatch.batch_scheduler import BatchScheduler
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.flow_control import StreamLimits
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText, Encoded
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.assignment import Assignment
from headrace.runtime.streams.committer import Committer
from headrace.runtime.streams.offset_store import CommitRefusedError
from headrace.runtime.streams.stream import StartOffsets
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.produce import DeliveryCallback, DeliveryReport, Message, Outgoing
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.start import STREAM_EVENT, WorkerStart
from headrace.runtime.workers.process import WorkerProcess

SESSION_SECONDS = 1.0
WAIT_SECONDS = 0.4
_HEARTBEAT_SECONDS = 0.2
_METRICS = MetricRegistry()
_REFUSED = DeliveryReport(failure="the message is too large for its topic")


class _Committer(Committer):
    """Looks at whose commits these are."""

    history: History
    is_heard: Callable[[], bool]
    """The broker takes what it says."""
    _lanes: Mapping[PartitionKey, int]

    async def _commit(self, partitions: Collection[Any]) -> bool:
        self._lanes = {it.key: it.lane.id for it in partitions}
        return await super()._commit(partitions)

    def _next_request(self, waiting: Mapping[PartitionKey, Checkpoint]) -> dict[PartitionKey, Encoded]:
        request = super()._next_request(waiting)
        for key in request if self.is_heard() else ():
            self.history.check_commit_of(self._lanes[key])
        return request


class Member:
    """Keeps Stream and OffsetStore for its assignment. `trouble`: how likely a request fails."""

    max_text_chars = 32767
    max_request_chars = 512 * 1024

    def __init__(
        self, shape: Shape, group: Group, history: History, machine: Machine, rng: random.Random
    ) -> None:
        self.shape, self.group, self.history, self.rng = shape, group, history, rng
        self.trouble = 0.0
        self.generation: int | None = None
        self.is_cut_off = False
        """Nothing that it says reaches the broker."""
        self.lost_writes = 0
        self.late: LateCommits | None = None
        self.epoch = 0
        """Of the group, as last heard."""
        self.unanswered_at = -inf
        self._transactions = ModelTransactions(self) if shape.policy.exactly_once else None
        self.processes: dict[int, FakeProcess] = {}
        self._machine = machine
        self._positions: dict[PartitionKey, int] = {}
        self._ids: dict[PartitionKey, int] = {}  # of the topics whose logs are read
        self._lease = Lease.create(shape.workers)
        metrics = TriggerMetrics(_METRICS, "", "f", "kafka-cluster", "t")
        self.dispatcher = Dispatcher(
            shape.workers,
            self._spawn,
            shape.policy,
            metrics,
            self._lease,
            end_session=self._end_session,
        )
        self.assignment = Assignment(
            self.dispatcher, self, StreamLimits(shape.capacity, shape.in_flight, "channelBufferSize", 1 << 20)
        )
        self.assignment.are_chunks = shape.delivery == "chunks"
        self.assignment.committer = committer = _Committer(self, metrics)
        committer.history = history
        committer.is_heard = lambda: not self.is_cut_off and self.generation == group.generation
        self.is_up = asyncio.Event()
        self.tasks: asyncio.TaskGroup

    async def run(self) -> None:
        """Until cancelled. Raises what it can't go on after."""
        await self.dispatcher.start()
        async with asyncio.TaskGroup() as self.tasks:
            for loop in (self._fetch(), self._beat(), self._fence(), self.assignment.commit_forever()):
                self.tasks.create_task(loop)
            if self.shape.is_made_anew:
                self.tasks.create_task(self._look_at_topic())
            self.is_up.set()

    def on_assigned(self, keys: Collection[PartitionKey]) -> None:
        """The group's word, under the present generation."""
        assert self.generation is not None
        self.epoch = self.group.epoch
        self.group.give(self, keys)
        self._renew()
        self.assignment.on_assigned(keys, self.generation, self.tasks)

    def on_session_end(self) -> None:
        """The group has thrown it out, whether it knows or not: its workers must have ended."""
        for delivery in self._delivered():
            self.history.on_left(delivery, is_clean=False)

    async def give_back(self, wait_seconds: float, keys: Collection[PartitionKey] | None = None) -> None:
        """As a trigger does when the group says so."""
        gone = self._delivered(keys)
        for delivery in gone:
            delivery.revoked_at = asyncio.get_running_loop().time()
        lost_before = self.lost_writes
        late_ack_seconds = self.shape.policy.late_ack_seconds if wait_seconds else 0
        await self.assignment.give_back(wait_seconds, late_ack_seconds, keys)
        is_clean = self.lost_writes == lost_before and self.generation == self.group.generation
        for delivery in gone:
            is_current = delivery.key == self.group.log(delivery.key._replace(topic="t"))
            is_whole = is_current and self.history.is_text_whole  # what is of a log before is never committed
            self.history.on_left(delivery, is_clean=is_clean and is_whole)

    def _delivered(self, keys: Collection[PartitionKey] | None = None) -> list[Delivery]:
        mine = [it for it in self.history.deliveries.values() if it.holder is self and not it.is_over]
        return mine if keys is None else [it for it in mine if it.key._replace(topic="t") in keys]

    # ---- Stream

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        if self._transactions is not None:
            await self._transactions.begin(keys)
        await self.wait(0.1)
        while self.is_cut_off:
            await self.wait(0.1)
        committed = {key: self.group.start_of(key) for key in keys if self.group.has_committed(key)}
        starts = {key: committed.get(key, Checkpoint(0)) for key in keys}
        self._go_by(keys, self.group.topic_id)
        return StartOffsets(starts, committed, {key: self.group.end_of(key) for key in keys})

    async def position(self, key: PartitionKey) -> int:
        return self._positions[key]

    def seek(self, key: PartitionKey, offset: int) -> None:
        self._positions[key] = offset

    def log_id(self, key: PartitionKey) -> str:
        """As Stream."""
        return shown_id(self._ids[key]) if key in self._ids else ""

    def on_room(self, partition: AssignedPartition) -> None:
        """The next fetch asks."""

    def on_started(self) -> None:
        for key, partition in self.assignment.partitions.items():
            self._note_begun(key, partition, self.group.start_of(key))

    def _note_begun(self, key: PartitionKey, partition: AssignedPartition, start: Checkpoint) -> None:
        """In case that it has only just."""
        if partition.lane.id in self.history.deliveries:
            return
        attempts = {at: n for first, end, n in start.attempts for at in range(first, end)}
        plan = start.plan
        if plan is not None and any(offset in plan for offset in attempts):
            plan = None
        about = Delivery(self.group.log(key, self._ids[key]), start, attempts, self, plan)
        self.history.on_begin(partition.lane.id, about)

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            self._positions.pop(key, None)

    def end_of(self, key: PartitionKey) -> int:
        return self._positions.get(key, 0)

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        await self.wait(0.1)
        self.may_fail(OSError)
        self.history.on_given_up(partition.lane.id, record.offset, "deadLetter")
        await self.wait(0.1)
        self.may_fail(OSError)
        return True

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        seconds = self.rng.uniform(0, self.shape.most_confirm_seconds)
        asyncio.get_running_loop().call_later(seconds, self._confirm, message, done)

    def _confirm(self, message: Message, done: DeliveryCallback) -> None:
        value = message.value or b""
        if value in self.group.too_large:
            self.history.on_refused(value)
            done(_REFUSED)
        else:
            self.history.on_confirmed(value)
            done(DeliveryReport(0, 0))

    # ---- OffsetStore

    def encode(self, key: PartitionKey, checkpoint: Checkpoint, max_chars: int) -> Encoded:
        topic_id = shown_id(self._ids[key]) if self.shape.is_made_anew else ""
        text = CheckpointText(len(self.group.keys), checkpoint, topic_id)
        return text.encode(max_chars, runs_first=self._transactions is not None)

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        told = {
            key: [(message, partial(self._tell, message, done)) for message, done in it]
            for key, it in outgoing.items()
        }
        try:
            if self._transactions is None:
                await self.commit(offsets)
                return {}
            refused = await self._transactions.write(offsets, told)
        except BaseException:  # cancelled, too
            self.lost_writes += 1
            raise
        self.lost_writes += bool(refused)
        return refused

    async def commit(self, offsets: Mapping[PartitionKey, tuple[int, str]]) -> None:
        """As a request that may fail, or whose answer may be lost."""
        generation = self.generation
        while True:
            membership = generation, self.epoch
            try:
                await self.wait(0.02)
                self.may_fail(CommitRefusedError)
            except BaseException:  # cancelled, too
                self._lose(membership, offsets)
                raise
            if self.late is not None and self.late.loses:
                self._lose(membership, offsets)
                continue
            try:
                if self.late is None:  # no epoch is looked at either
                    membership = generation, self.group.epoch
                self.group.commit(self, membership, offsets)
            except StaleEpochError:  # the next heartbeat brings the newest one
                await self.wait(0.02)
                if self.generation != generation:
                    raise CommitRefusedError("the group has gone on") from None
                self.epoch = self.group.epoch
                continue
            try:
                await self.wait(0.02)
                self.may_fail(CommitRefusedError)
            except BaseException:
                self._lose(membership, {})
                raise
            return

    def _lose(
        self, membership: tuple[int | None, int], offsets: Mapping[PartitionKey, tuple[int, str]]
    ) -> None:
        """Nobody waits for the answer to this request any more."""
        if self.late is None or self._transactions is not None:
            return
        self.unanswered_at = asyncio.get_running_loop().time()
        if offsets:
            self.late.lose(self, membership, offsets)

    def _tell(self, message: Message, done: DeliveryCallback, written: DeliveryReport) -> None:
        """What has become of one that goes with a commit."""
        if written.failure:
            self.history.check_refused(message.value or b"", self.group.too_large)
            self.history.on_refused(message.value or b"")
        done(written)

    def may_fail(self, kind: Callable[[str], Exception]) -> None:
        """Raise `kind`, now and then; always while it is cut off."""
        if self.is_cut_off or self.rng.random() < self.trouble:
            raise kind("the broker doesn't answer")

    async def wait(self, most_seconds: float) -> None:
        """A part of that."""
        await asyncio.sleep(self.rng.uniform(0, most_seconds))

    # ---- what goes on

    def _go_by(self, keys: Iterable[PartitionKey], topic_id: int) -> None:
        """The offsets of these are of that topic."""
        self._ids |= dict.fromkeys(keys, topic_id)
        if self._transactions is not None:
            self._transactions.begun |= dict.fromkeys(keys, shown_id(topic_id))

    async def _look_at_topic(self) -> None:
        """Whether it is still the one that is read. Some stay, of some the start is read again."""
        while True:
            await self.wait(0.6)
            id_ = self.group.topic_id
            partitions = self.assignment.partitions
            keys = [] if self.is_cut_off else [key for key in partitions if self._ids[key] != id_]
            if not keys:
                continue
            gone = self._delivered(keys)
            for delivery in gone:
                delivery.revoked_at = asyncio.get_running_loop().time()
            if self.shape.goes_by_ids:
                await self.assignment.start_anew(keys, WAIT_SECONDS)
            else:
                self._go_by(keys, id_)
                await self.assignment.restart(dict.fromkeys(keys, Checkpoint(0)), WAIT_SECONDS)
            for delivery in gone:
                self.history.on_left(delivery, is_clean=False)

    async def _beat(self) -> None:
        while True:
            if not self.is_cut_off and self.generation is not None:
                self._renew()
                self.epoch = self.group.epoch
                self.dispatcher.dispatch()
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    def _renew(self) -> None:
        self._lease.renew(int((asyncio.get_running_loop().time() + SESSION_SECONDS) * 1e9))

    async def _fence(self) -> None:
        while True:
            before = self._lease.kills.last_sweep
            self._lease.kills.sweep(self._lease.ended_ns)
            if self._lease.kills.last_sweep != before:
                for process in self.processes.values():
                    process.die()
            await asyncio.sleep(0.05)

    async def _fetch(self) -> None:
        while True:
            await self.wait(0.1)
            if self._fetch_once():
                self.dispatcher.dispatch()

    def _fetch_once(self) -> bool:
        """Whether something has come: only then is there more to hand out."""
        if self.is_cut_off:
            return False
        before = [it.ledger.position for it in self.assignment.partitions.values()]
        for key, partition in list(self.assignment.partitions.items()):
            if self._ids[key] != self.group.topic_id or partition.is_replaced:
                continue
            self._note_begun(key, partition, Checkpoint(0))
            if self.shape.delivery == "ranges":
                self.dispatcher.extend(partition, self.group.end_of(key))
                continue
            while (room := partition.to_fetch) and self.rng.random() < 0.9:
                found = self.group.fetch(key, self._positions[key], self.rng.randint(1, room))
                if not found:
                    self._positions[key] = max(self._positions[key], self.group.end_of(key))
                    break
                self._positions[key] = found[-1].offset + 1
                self.assignment.add(partition, found)
        return before != [it.ledger.position for it in self.assignment.partitions.values()]

    # ---- processes

    def _spawn(self, index: int) -> WorkerProcess:
        policy = self.shape.policy
        start = WorkerStart(
            folder="",
            module="simulated",
            function="handler",
            worker_id=index,
            trigger_kind="kafka-cluster",
            trigger_name="t",
            ack_mode=policy.ack_mode.value,
            is_cumulative=policy.is_cumulative,
            takes_acks=policy.ack_mode.is_explicit,
            is_batch=policy.batch is not None,
            max_concurrency=policy.max_concurrency,
            exactly_once=policy.exactly_once,
            decoder=policy.decoder,
            decoder_options=policy.decoder_options,
            event=policy.event or STREAM_EVENT,
            spark_session_id=str(UUID(int=self.rng.getrandbits(128))) if self.shape.has_sessions else "",
        )
        process = FakeProcess(start, self._lease, self._machine, self._end_session)
        self.processes[index] = process
        return cast("WorkerProcess", process)

    async def _end_session(self, session: str) -> bool:
        await self.wait(0.05)
        if is_ended := self.rng.random() >= self.trouble:
            self.history.ended_sessions.add(session)
        return is_ended

    def idle_and_open(self) -> set[tuple[int, int | None]]:
        """Lanes that wait although a worker that may have them does nothing."""
        dispatcher = self.dispatcher
        scheduler = dispatcher._scheduler
        planning = scheduler._planning if isinstance(scheduler, BatchScheduler) else {}
        # What a commit under way tells of:
        told = scheduler._plans._in_commit if isinstance(scheduler, BatchScheduler) else set()
        free = {w.index for w in dispatcher.workers if w.is_ready and not w.in_flight.runs} - planning.keys()
        if self._lease.is_over or not free:
            return set()
        lanes = [it.lane for it in dispatcher.partitions.values()]
        return {
            (lane.id, lane.next_offset)
            for lane in lanes
            if lane.is_deliverable and not lane.in_flight_count and lane.id not in told
            if (worker := dispatcher.worker_of(lane.key)) is None or worker in free
        }
