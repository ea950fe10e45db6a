"""The Kafka trigger: one consumer in the group, feeding one dispatcher."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NoReturn

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from headrace.runtime.config.function import TriggerSpec
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.dispatch.reports import Warnings, log_assignment
from headrace.runtime.errors import HeadraceError
from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.chunk import ChunkSlice
from headrace.runtime.partitions.names import describe_partitions
from headrace.runtime.partitions.ranges import RangePartition
from headrace.runtime.partitions.undecoded import UndecodedPartition
from headrace.runtime.wire.frames import WireRecord
from headrace.runtime.workers.fence import Fence
from headrace.triggers.kafka.client import chunks, internals
from headrace.triggers.kafka.client.connect import connect, wait_for_topics
from headrace.triggers.kafka.client.errors import explain
from headrace.triggers.kafka.client.joins import Joins
from headrace.triggers.kafka.committer import Committer
from headrace.triggers.kafka.dead_letters import DeadLetters
from headrace.triggers.kafka.item_limit import ItemLimit
from headrace.triggers.kafka.ranges import EndWatcher, read_record
from headrace.triggers.kafka.settings.model import KafkaSettings
from headrace.triggers.kafka.settings.rules import MAX_EVENTS
from headrace.triggers.kafka.start import read_ends, read_starts

logger = logging.getLogger(__name__)

_COMMIT_INTERVAL_SECONDS = 1.0
_COMMIT_TIMEOUT_SECONDS = 5.0
_LEAVE_TIMEOUT_SECONDS = 5.0
_FETCH_WAIT_SECONDS = 1.0
_RETRY_SECONDS = 1.0
# Undecoded, per partition: enough to keep workers busy during a fetch.
_AHEAD_BYTES = 1 << 19


class KafkaTrigger(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """Keeps triggers.base.Trigger and runtime's Feed. aiokafka calls the two listener methods.

    Owns the assignment: `_assigned` holds what is delivered now, and is empty from a revoke until the next
    assignment's start offsets are known.
    """

    kind = "kafka-cluster"
    aliases = ("kafka",)
    Settings = KafkaSettings

    def __init__(
        self, spec: TriggerSpec, dispatcher: Dispatcher, metrics: TriggerMetrics, client_id: str
    ) -> None:
        self._spec = spec
        self._settings: KafkaSettings = spec.settings
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._client_id = client_id
        self._warnings = Warnings(dispatcher, metrics, self._settings.max_processing_time_seconds)
        self._joins = Joins(
            self._settings.consumer_group,
            self._settings.rebalance_retry_max,
            self._settings.rebalance_retry_backoff_seconds,
            metrics.failed_joins.inc,
        )
        dead_letter_topic = self._settings.on_failure.dead_letter_topic
        self._dead_letters = DeadLetters(self._settings, dead_letter_topic, metrics.function, client_id)
        self._assigned: dict[TopicPartition, AssignedPartition] = {}
        self._byte_share = self._settings.max_buffered_bytes  # of one partition
        self._ends: Mapping[TopicPartition, int] = {}
        self._wanted = internals.Wanted()
        self._watcher: EndWatcher | None = None  # with delivery: ranges
        self._tight: dict[TopicPartition, AssignedPartition] = {}  # wanted, with room for few
        self._is_undecoded = False
        self._item_limit = ItemLimit()
        self._problem = "connecting"
        self._lease = dispatcher.lease
        self._fence = Fence(self._lease)
        self._settled_ns = 0  # no rebalance that this member hasn't joined had begun by then
        self._is_stopping = False
        self._releasing = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None
        self._loops: asyncio.Task[None] | None = None
        self._tasks: asyncio.TaskGroup
        self._consumer: AIOKafkaConsumer | None = None
        self._admin: AIOKafkaAdminClient
        self._committer: Committer
        dispatcher.feed = self

    # ---- start, run, stop

    async def run(self) -> None:
        """Connect, join the group, fetch and commit until stopped."""
        self._loops = asyncio.create_task(self._run(), name=f"trigger-{self._spec.name}")
        await asyncio.wait([self._loops])
        if not self._loops.cancelled():
            self._loops.result()

    async def stop(self, wait_seconds: float) -> None:
        """Give everything back, commit, leave the group."""
        self._is_stopping = True
        if self._loops is not None:
            self._loops.cancel()
            await asyncio.wait([self._loops])
        consumer = self._consumer
        if consumer is None:
            return
        if self._releasing.locked():
            self._dispatcher.shorten_revoke(wait_seconds)  # a rebalance may give handlers longer
        try:
            await self._release(wait_seconds, self._dispatcher.policy.late_ack_seconds)
        finally:
            # Not before: a rebalance that comes now has to wait for the last commit.
            self._consumer = None
            await self._leave(consumer)
            await self._dead_letters.close()
            await self._fence.stop()

    async def _leave(self, consumer: AIOKafkaConsumer) -> None:
        """Leave the group. A broker that is frozen, or in a rebalance, must not hold up the stop."""
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_SECONDS):
                await internals.stop(consumer, self._admin)
                await self._admin.close()
        except (TimeoutError, KafkaError) as error:
            why = str(error) or f"no answer within {_LEAVE_TIMEOUT_SECONDS:g} s"
            logger.warning("leaving the group failed (%s): it notices by sessionTimeout", why)

    async def _run(self) -> None:
        try:
            consumer, self._admin = await connect(self._settings, self._client_id)
            self._consumer = consumer
            self._committer = Committer(consumer, self._metrics)
            self._fence.start()
            internals.watch_session(consumer, self._session_renewed)
            internals.tune(consumer, retry_seconds=self._settings.retry_backoff_seconds)
            backoff_seconds = self._settings.rebalance_retry_backoff_seconds
            self._forward_chunks(consumer)
            internals.watch_joins(consumer, backoff_seconds, self._joins.failed, self._joins.joined)
            self._problem = f"waiting for topics {', '.join(self._settings.topics)}"
            await wait_for_topics(self._admin, self._settings)
            self._problem = f"joining group {self._settings.consumer_group}"
            consumer.subscribe(topics=list(self._settings.topics), listener=self)
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                if self._dispatcher.policy.is_ranges:
                    restart = partial(self._restart_out_of_range, consumer)
                    self._watcher = EndWatcher(consumer, self._dispatcher, lambda: self._assigned, restart)
                    tasks.create_task(self._watcher.run_forever(), name="ends")
                tasks.create_task(self._fetch_forever(consumer), name="fetch")
                tasks.create_task(self._commit_forever(consumer), name="commit")
        except* KafkaError as errors:
            raise explain(errors.exceptions[0], self._settings) from None
        except* HeadraceError as errors:
            raise errors.exceptions[0] from None

    def _session_renewed(self, sent_ns: int, is_rebalancing: bool) -> None:  # a callback
        """The broker has answered what was sent then: it keeps this member for as long again."""
        if not is_rebalancing:
            self._settled_ns = sent_ns
        self._lease.renew(membership_end_ns(self._settings, sent_ns, self._settled_ns))
        self._dispatcher.dispatch()  # nothing is handed out while it is over

    def _forward_chunks(self, consumer: AIOKafkaConsumer) -> None:
        self._is_undecoded = bool(self._dispatcher.policy.decoder) and chunks.forward(consumer)
        if self._dispatcher.policy.decoder and not self._is_undecoded:
            logger.warning("this aiokafka is unknown inside: records are decoded here, not in the workers")

    # ---- fetch and commit

    async def _fetch_forever(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            max_records = self._max_records()
            try:
                fetched = await internals.fetch(consumer, self._wanted, _FETCH_WAIT_SECONDS, max_records)
            except Exception as error:  # codecs raise what they like
                await self._mend(consumer, error)
                continue
            for tp, found in fetched.items():
                self._take_in(tp, found)
            if fetched:
                self._dispatcher.dispatch()
                await asyncio.sleep(0)  # a fetch that finds records never waits; others must get a turn

    def _max_records(self) -> int:
        """Of one fetch, which may bring as much of one partition as of all."""
        for tp, partition in list(self._tight.items()):
            self._note_room(tp, partition)
        most = min(
            (partition.room for partition in self._tight.values()), default=max(1, self._capacity // 2)
        )
        wanted = [p for tp in self._wanted if isinstance(p := self._assigned.get(tp), UndecodedPartition)]
        return min(most, self._item_limit.items(wanted)) if wanted else most

    def _take_in(self, tp: TopicPartition, found: Sequence[Any]) -> None:
        partition = self._assigned[tp]
        if isinstance(partition, UndecodedPartition):
            before_bytes = partition.waiting_room_bytes
            for records in chunks.pieces(found):
                self._add(tp, records)
            self._item_limit.brought(len(found), before_bytes - partition.waiting_room_bytes)
        else:
            self._add(tp, found)
        self._note_room(tp, partition)

    def _add(self, tp: TopicPartition, records: Sequence[WireRecord]) -> None:
        partition = self._assigned[tp]
        self._dispatcher.add(partition, records)
        record_bytes = max(1, _average_bytes(records))
        partition.capacity = max(1, min(self._capacity, self._byte_share // record_bytes))

    def _note_room(self, tp: TopicPartition, partition: AssignedPartition) -> None:
        """Fetch it, or not, and how much at most."""
        room = partition.room
        if not room:
            self._wanted.discard(tp)
        elif tp not in self._wanted:
            self._wanted.add(tp)
            internals.wake(self._consumer)
        if 0 < room < self._capacity // 2:
            self._tight[tp] = partition
        else:
            self._tight.pop(tp, None)

    @cached_property
    def _capacity(self) -> int:
        """Records of a partition that are held: enough for a batch to fill while another one is handled."""
        batch = self._dispatcher.policy.batch
        return max(self._settings.max_unsettled, 2 * batch.size if batch else 0)

    async def _commit_forever(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            await asyncio.sleep(_COMMIT_INTERVAL_SECONDS)
            self._dispatcher.sync_progress()
            self._warnings.look()
            await self._skip_gaps(consumer)
            await self._committer.commit(self._assigned.values(), _COMMIT_TIMEOUT_SECONDS)

    async def _skip_gaps(self, consumer: AIOKafkaConsumer) -> None:
        """Offsets without a record at the end of a partition (control records, compaction) leave no lag.

        And at the end of a plan they must not be waited for.
        """
        for tp, partition in list(self._assigned.items()):
            if partition.is_idle or partition.is_plan_incomplete:
                partition.ledger.advance(await consumer.position(tp))
        self._dispatcher.dispatch()

    async def _mend(self, consumer: AIOKafkaConsumer, error: Exception) -> None:
        """After a failed fetch: undo what it may have skipped, then deal with the cause, or raise it."""
        for tp, partition in self._assigned.items():
            consumer.seek(tp, partition.ledger.position)
        unreadable = internals.unreadable_record(error)
        if isinstance(error, OffsetOutOfRangeError):
            await self._restart_out_of_range(consumer, error.args[0])
        elif unreadable is not None and unreadable.tp in self._assigned:
            await self._halt_at(consumer, unreadable.tp, unreadable.offset, error)
        elif isinstance(error, KafkaError) and error.retriable:
            logger.warning("fetching failed (%r); trying again", error)
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            raise error

    async def _halt_at(
        self, consumer: AIOKafkaConsumer, tp: TopicPartition, offset: int, error: Exception
    ) -> None:
        """A record can't be decoded: deliver those before it, one fetch each, and stop there."""
        partition = self._assigned[tp]
        self._wanted.discard(tp)
        alone = internals.Wanted({tp})
        with contextlib.suppress(Exception):  # the same record again, where offsets have holes
            while partition.ledger.position < offset and self._assigned.get(tp) is partition:
                fetched = await internals.fetch(consumer, alone, _FETCH_WAIT_SECONDS, 1)
                for records in fetched.values():
                    # A fetch may outlast an assignment, and bring records of the next one.
                    if (now := self._assigned.get(tp)) is not None:
                        for piece in chunks.pieces(records):
                            self._dispatcher.add(now, piece)
        if self._assigned.get(tp) is partition:
            self._dispatcher.cut_off(partition, f"the record can't be decoded ({error})")
        if (now := self._assigned.get(tp)) is not None:
            self._note_room(tp, now)

    async def _restart_out_of_range(
        self, consumer: AIOKafkaConsumer, positions: Mapping[TopicPartition, int]
    ) -> None:
        """A log was truncated, or a topic created anew: go on with the earliest record, and say so."""
        before: dict[TopicPartition, AssignedPartition] = dict(self._assigned)
        try:
            beginnings = await consumer.beginning_offsets(list(positions))
        except KafkaError as error:
            logger.warning("the earliest offsets can't be read yet (%r); trying again", error)
            await asyncio.sleep(_RETRY_SECONDS)
            return
        for tp, start in beginnings.items():
            partition = before.get(tp)
            if partition is None or self._assigned.get(tp) is not partition:
                continue
            self._metrics.offset_resets.inc()
            logger.error("%s: offset %d is out of range, going on with %d", partition, positions[tp], start)
            self._wanted.discard(tp)
            self._tight.pop(tp, None)
            wait_seconds = self._settings.max_wait_handler_during_rebalance_seconds
            await self._dispatcher.revoke([partition], wait_seconds)
            await self._committer.forget(partition)
            if self._assigned.get(tp) is partition:
                replacement = self._deliver_from(consumer, tp, Checkpoint(start))
                self._assigned[tp] = replacement
                self._dispatcher.join(replacement)

    # ---- rebalance

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """The group rebalances: give everything back, whoever gets it next. Heartbeats go on meanwhile."""
        consumer = self._consumer
        if consumer is None:
            return
        self._problem = f"group {self._settings.consumer_group} is rebalancing"
        is_lost = internals.generation(consumer) < 0
        if is_lost and self._assigned:
            logger.error("the membership in the group is lost: its records are dropped here, uncommitted")
        wait_seconds = 0 if is_lost else self._settings.max_wait_handler_during_rebalance_seconds
        late_ack_seconds = 0 if is_lost else self._dispatcher.policy.late_ack_seconds
        try:
            await self._release(wait_seconds, late_ack_seconds)
        except Exception as error:
            # aiokafka would swallow it and join again, with handlers of this assignment still running.
            self._tasks.create_task(_raise(error), name="revoke")
            await asyncio.Event().wait()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Heartbeats wait for this to return: the work is a task's."""
        if self._consumer is None or self._is_stopping:
            return
        self._metrics.rebalances.inc()
        generation = internals.generation(self._consumer)
        start = self._start_assignment(self._consumer, assigned, generation)
        self._starting = self._tasks.create_task(start, name="assignment")

    async def _start_assignment(
        self, consumer: AIOKafkaConsumer, assigned: Collection[TopicPartition], generation: int
    ) -> None:
        settings = self._settings
        others = [tp for tp in assigned if settings.partitions and tp.partition not in settings.partitions]
        mine = sorted(set(assigned) - set(others))
        consumer.pause(*(assigned if self._dispatcher.policy.is_ranges else others))
        self._dispatcher.own((tp.topic, tp.partition) for tp in mine)
        starts = await read_starts(
            consumer, self._admin, settings.consumer_group, mine, settings.initial_offset
        )
        self._ends = await read_ends(consumer, mine) if self._dispatcher.takes_acks else {}
        self._byte_share = settings.max_buffered_bytes // max(1, len(mine))
        self._assigned = {tp: self._deliver_from(consumer, tp, starts.checkpoints[tp]) for tp in mine}
        self._lease.begin()
        self._dispatcher.assign(list(self._assigned.values()))
        self._committer.open(starts, generation)
        self._problem = ""
        internals.wake(consumer)
        if self._watcher is not None:
            self._watcher.look_now()
        if others:
            logger.info("%d assigned partitions are left alone: not in `partitions`", len(others))
        log_assignment(self._dispatcher)
        # Start positions count as commits from now on: initialOffset must not be asked twice.
        await self._committer.commit(self._assigned.values(), _COMMIT_TIMEOUT_SECONDS)

    def _deliver_from(
        self, consumer: AIOKafkaConsumer, tp: TopicPartition, start: Checkpoint
    ) -> AssignedPartition:
        consumer.seek(tp, start.offset)
        if self._dispatcher.policy.is_ranges:
            return RangePartition(tp.topic, tp.partition, start)
        if start.plan is not None and start.plan.end - start.plan.first > MAX_EVENTS:
            start = replace(start, plan=None)  # made of ranges, before the function was changed
        self._wanted.add(tp)
        window = self._dispatcher.policy.ack_window_size
        about = (tp.topic, tp.partition, start, self._capacity, window)
        if self._is_undecoded:
            return UndecodedPartition(*about, min(_AHEAD_BYTES, self._byte_share))
        return AssignedPartition(*about)

    async def _release(self, wait_seconds: float, late_ack_seconds: float) -> None:
        """Nothing of this assignment is in flight, and what it settled is committed, when this returns."""
        async with self._releasing:  # a stop and a rebalance may meet
            if self._starting is not None:
                self._starting.cancel()
                await asyncio.wait([self._starting])
            partitions = list(self._assigned.values())
            if partitions:
                logger.info("revoked: %s", describe_partitions(p.key for p in partitions))
            self._assigned = {}
            self._wanted.clear()
            self._tight.clear()
            try:
                await self._dispatcher.revoke(partitions, wait_seconds, late_ack_seconds)
                self._lease.lift()
                self._dispatcher.disown()
                await self._committer.commit(partitions, _COMMIT_TIMEOUT_SECONDS)
            finally:
                self._committer.close()

    # ---- Feed

    def on_room(self, partition: AssignedPartition) -> None:
        """Fetch more of it."""
        tp = TopicPartition(partition.topic, partition.partition)
        if self._assigned.get(tp) is partition:
            self._note_room(tp, partition)

    def end_of(self, partition: AssignedPartition) -> int:
        """The high watermark of the last fetch; before the first one, where it ended when it was assigned."""
        tp = TopicPartition(partition.topic, partition.partition)
        consumer = self._consumer
        fetched = consumer.highwater(tp) if consumer is not None and tp in consumer.assignment() else None
        return max(self._ends.get(tp, 0), fetched or 0)

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """One commit."""
        return await self._committer.commit(partitions, _COMMIT_TIMEOUT_SECONDS)

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """To the dead-letter topic."""
        if isinstance(partition, RangePartition):  # nobody has fetched it
            tp = TopicPartition(*partition.key)
            found = await read_record(self._settings, self._client_id, tp, record.offset)
            if found is None:
                return False
            record = found
        await self._dead_letters.write(record, *partition.key, reason, attempts)
        return True

    def retry_unreadable(self, partition: AssignedPartition) -> None:
        """Every fetch that fails seeks back to it."""
        partition.is_cut_off = False
        self.on_room(partition)

    def skip_unreadable(self, partition: AssignedPartition) -> None:
        """Go on one offset further."""
        tp = TopicPartition(partition.topic, partition.partition)
        if self._consumer is None or self._assigned.get(tp) is not partition:
            return
        offset = partition.ledger.position
        logger.warning("%s offset %d, which can't be read, is skipped by hand", partition, offset)
        partition.ledger.advance(offset + 1)
        partition.is_cut_off = False
        self._consumer.seek(tp, offset + 1)
        self._note_room(tp, partition)

    # ---- what others see

    @property
    def problems(self) -> list[str]:
        """Why no records flow, or why some don't."""
        stuck = [p for p in self._assigned.values() if p.is_stuck]
        return [
            *([problem] if (problem := self._joins.problem or self._problem) else []),
            *(["no heartbeat was answered for sessionTimeout"] if self._lease.is_over else []),
            *(partition.problem for partition in stuck),
        ]

    def status(self) -> dict[str, Any]:
        """Group membership and partitions."""
        return {
            "topics": list(self._settings.topics),
            "consumerGroup": self._settings.consumer_group,
            "generation": internals.generation(self._consumer) if self._consumer else None,
            "partitions": [
                {
                    **partition.status(),
                    "worker": self._dispatcher.allocator.worker_of(partition),
                    "committed": self._committer.committed(partition),
                }
                for partition in self._assigned.values()
            ],
        }


def membership_end_ns(settings: KafkaSettings, sent_ns: int, settled_ns: int) -> int:
    """Until when the group keeps a member: which doesn't go silent, and joins a rebalance in time.

    The broker has answered what was sent at `sent_ns`; it last did so without asking to join at `settled_ns`.
    """
    session_end_ns = sent_ns + int(settings.session_timeout_seconds * 1e9)
    return min(session_end_ns, settled_ns + int(settings.rebalance_timeout_seconds * 1e9))


def _average_bytes(records: Sequence[Any]) -> int:
    if isinstance(records, ChunkSlice):
        return records.chunk.record_bytes
    total: int = sum([record.serialized_value_size for record in records])
    return total // len(records)


async def _raise(error: BaseException) -> NoReturn:
    raise error
