"""The v3ioStream trigger: one member of the group, feeding one dispatcher."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.errors import HeadraceError
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.assignment import Assignment
from headrace.runtime.streams.committer import Committer
from headrace.runtime.tasks import end_tasks, outcome, task_group
from headrace.runtime.v3io.client import V3ioClient, V3ioError, V3ioRefusedError
from headrace.runtime.v3io.group_format import escaped
from headrace.runtime.v3io.group_state import StateItem
from headrace.runtime.v3io.retry import backoff_seconds
from headrace.runtime.v3io.streams import describe
from headrace.runtime.workers.fence import Fence
from headrace.triggers.base import EmbeddedNeeds, Trigger, TriggerStatus
from headrace.triggers.v3io.access import access_of
from headrace.triggers.v3io.dead_letters import V3ioDeadLetters
from headrace.triggers.v3io.empty_shards import EmptyShards
from headrace.triggers.v3io.membership import V3ioMembership
from headrace.triggers.v3io.settings import V3ioSettings
from headrace.triggers.v3io.shard_offsets import ShardOffsets
from headrace.triggers.v3io.shard_reader import ShardReaderContext
from headrace.triggers.v3io.shares import ShardAssignor
from headrace.triggers.v3io.stream import V3ioStream

logger = logging.getLogger(__name__)

_EVENT = "headrace.triggers.v3io.event:V3ioEvent"
_CALL_SECONDS = 4.0
"""For one request of a commit, which may take a second more."""
_HEARTBEATS_PER_SESSION = 3


class V3ioTrigger(Trigger):
    """Owns the clients and the membership; what the group has given is its assignment's."""

    @staticmethod
    def delivery(settings: V3ioSettings, fields: TriggerFields) -> DeliveryPolicy:
        """One lane for each shard."""
        return replace(
            fields.delivery,
            worker_allocation_mode=settings.worker_allocation_mode,
            explicit_ack_semantics=settings.explicit_ack_semantics,
            ack_window_size=settings.ack_window_size,
            topic_aliases=settings.topic_aliases,
            failure=settings.on_failure.policy,
            event=_EVENT,
        )

    @staticmethod
    def embedded(settings: V3ioSettings) -> EmbeddedNeeds:
        """A web API with all streams that the function reads and writes by itself."""
        streams = tuple(str(it) for it in (settings.place, settings.dead_letter_place) if it)
        return EmbeddedNeeds("v3io", streams, lambda at: settings.model_copy(update={"web_api": at[0]}))

    def __init__(
        self, spec: TriggerSpec, dispatch: Dispatch, metrics: TriggerMetrics, client_id: str
    ) -> None:
        settings: V3ioSettings = spec.settings
        self._spec = spec
        self._settings = settings
        self._dispatch = dispatch
        self._metrics = metrics
        self._lease = dispatch.lease
        self._fence = Fence(dispatch.lease)
        fields = spec.fields
        access = access_of(settings.web_api, fields.username, fields.password, fields.secret)
        connections = settings.num_transport_workers
        self._client = V3ioClient(access, connections=connections)
        self._commit_client = V3ioClient(access, connections=connections, call_seconds=_CALL_SECONDS)
        # On connections of its own: heartbeats don't wait behind reads.
        beat_seconds = min(_CALL_SECONDS, settings.session_timeout_seconds / _HEARTBEATS_PER_SESSION)
        self._group_client = V3ioClient(access, connections=1, call_seconds=beat_seconds)
        self._clients = (self._client, self._commit_client, self._group_client)
        stream, group = settings.place, settings.consumer_group
        self._offsets = ShardOffsets(self._commit_client, stream, group, self._generation)
        dead_letters = V3ioDeadLetters(self._client, settings.dead_letter_place)
        awaited = None if settings.seek_to == "earliest" else EmptyShards(self._commit_client, stream, group)
        self._stream = V3ioStream(self._offsets, dead_letters, awaited, self._on_started)
        self._assignment = Assignment(dispatch, self._stream, settings.limits)
        self._assignment.committer = Committer(self._offsets, metrics)
        self._membership: V3ioMembership | None = None
        self._problem = "connecting"
        self._stopping = asyncio.Lock()
        self._loops: asyncio.Task[None] | None = None
        self._heartbeats: asyncio.Task[None] | None = None
        self._tasks: asyncio.TaskGroup

    # ---- start, run, stop

    async def run(self) -> None:
        """Find the stream, join the group, read and commit until stopped."""
        self._loops = asyncio.create_task(self._run(), name=f"trigger-{self._spec.name}")
        await outcome(self._loops)

    async def stop(self, wait_seconds: float) -> None:
        """Give everything back, commit, leave the group. Heartbeats go on until then."""
        if self._membership is not None:
            self._membership.takes_more = False
        if self._loops is not None:
            self._loops.cancel()
            await asyncio.wait([self._loops])
        async with self._stopping:
            try:
                await self._leave(wait_seconds)
            finally:
                for client in self._clients:
                    await client.close()
                await self._fence.stop()

    async def _leave(self, wait_seconds: float) -> None:
        if (membership := self._membership) is None:
            return
        try:
            await self._assignment.give_back(wait_seconds, self._dispatch.policy.late_ack_seconds)
        finally:
            self._membership = None
            if self._heartbeats is not None:
                await end_tasks([self._heartbeats])
            await membership.leave()

    async def _run(self) -> None:
        for client in self._clients:
            client.open()
        shard_count = await self._find_stream()
        self._fence.start()
        membership = self._membership = self._member_of(shard_count)
        self._problem = ""
        try:
            async with task_group(HeadraceError) as tasks:
                self._tasks = tasks
                self._stream.around = ShardReaderContext(
                    self._client, self._settings, self._offsets, self._assignment, self._dispatch, tasks
                )
                # Not one of the group's tasks: it goes on while a stop waits for handlers.
                self._heartbeats = asyncio.create_task(membership.run_forever(), name="heartbeats")
                tasks.create_task(outcome(self._heartbeats), name="watch over heartbeats")
                commit_seconds = self._settings.sequence_number_commit_interval_seconds
                tasks.create_task(self._assignment.commit_forever(commit_seconds), name="commit")
        finally:
            membership.takes_more = False  # nobody would read it

    async def _find_stream(self) -> int:
        """Its number of shards, once it is there. Raises V3ioError where that is forbidden."""
        stream = self._settings.place
        for pause in backoff_seconds():
            try:
                return (await describe(self._client, stream)).shard_count
            except V3ioError as error:
                if isinstance(error, V3ioRefusedError) and error.is_forbidden:
                    raise
                is_absent = isinstance(error, V3ioRefusedError) and error.is_absent
                why = "it does not exist" if is_absent else str(error)
                problem = f"waiting for stream {stream} at {self._client.access}: {why}"
            if problem != self._problem:
                logger.warning("%s", problem)
            self._problem = problem
            await asyncio.sleep(pause)
        raise AssertionError

    def _member_of(self, shard_count: int) -> V3ioMembership:
        settings, count = self._settings, self._spec.replica_count
        name = settings.consumer_group
        if (attribute := escaped(name)) != name:
            message = "group %s keeps its offsets as %s: names of attributes have letters, digits and _ alone"
            logger.warning(message, name, attribute)
        message = "%s: %d shards for a group of %d, by spec.replicas or --replicas"
        logger.info(message, settings.place, shard_count, count)
        return V3ioMembership(
            StateItem(self._group_client, settings.place, name),
            ShardAssignor(count, shard_count, int(settings.session_timeout_seconds * 1e9)),
            self._metrics.function,
            settings.heartbeat_interval_seconds,
            self,
        )

    # ---- the membership's word

    def on_renewed(self, sent_ns: int) -> None:
        """All of it is ours for as long again."""
        self._lease.renew(sent_ns + int(self._settings.session_timeout_seconds * 1e9))
        self._dispatch.dispatch()  # nothing is handed out while it is over

    def on_gained(self, shards: Collection[int]) -> None:
        """A task reads where they start."""
        membership = self._membership
        if membership is None or not membership.takes_more:
            return
        if not shards:
            logger.info("group %s has no shard for this replica: it stands by", self._settings.consumer_group)
            return
        self._metrics.rebalances.inc()
        self._problem = "reading where to start"
        keys = [PartitionKey(self._settings.topic, shard) for shard in shards]
        self._assignment.on_assigned(keys, membership.generation, self._tasks)

    async def has_moved(self) -> bool:
        """By what is committed. Where a start isn't known yet, it may have."""
        membership, partitions = self._membership, list(self._assignment.partitions.values())
        if membership is None or len(partitions) < len(membership.member.shards):
            return True
        self._dispatch.sync_progress()
        found = await asyncio.gather(*(self._offsets.read(it.key.partition) for it in partitions))
        pairs = [(it.committed, own) for it, own in zip(found, partitions, strict=True) if it is not None]
        return any(at is not None and at.offset > own.checkpoint.offset for at, own in pairs)

    async def on_lost(self) -> None:
        """Workers that are in their records end; nothing is committed."""
        self._metrics.rebalances.inc()
        self._problem = ""
        await self._assignment.give_back(0, 0)

    def _on_started(self) -> None:
        self._problem = ""

    def _generation(self) -> int | None:
        membership = self._membership
        return None if membership is None or self._lease.is_over else membership.generation

    # ---- what others see

    def problems(self) -> list[str]:
        """Why no records flow, or why some don't."""
        of_group = self._problem or (self._membership.problem if self._membership else "")
        return [
            *self._assignment.problems(of_group),
            *(["no heartbeat was written for sessionTimeout"] if self._lease.is_over else []),
            *self._stream.problems(),
        ]

    def status(self) -> TriggerStatus:
        """ShardAssignor membership and shards."""
        settings, membership = self._settings, self._membership
        about = {
            "stream": str(settings.place),
            "consumerGroup": settings.consumer_group,
            "memberId": membership.member.id if membership else None,
            "replicas": self._spec.replica_count,
        }
        age = self._assignment.committer.seconds_since_last
        return TriggerStatus(about, self._assignment.statuses(), last_commit_seconds=age)
