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
from headrace.triggers.v3io.membership import V3ioMembership
from headrace.triggers.v3io.settings import V3ioSettings
from headrace.triggers.v3io.shares import ShardAssignor
from headrace.triggers.v3io.stream import V3ioStream

logger = logging.getLogger(__name__)

_EVENT = "headrace.triggers.v3io.event:V3ioEvent"
_CALL_SECONDS = 4.0
"""How long one request of a commit may take; all of a commit may take a second more."""
_HEARTBEATS_PER_SESSION = 3


class V3ioTrigger(Trigger):
    """A member of a group, and the clients that it needs. Its shards are its assignment's."""

    @staticmethod
    def delivery(settings: V3ioSettings, fields: TriggerFields) -> DeliveryPolicy:
        """Return the policy by which each shard is one lane, in order."""
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
        """Return the need for a web API with all streams that the function reads and writes by itself."""
        streams = tuple(str(it) for it in (settings.stream, settings.dead_letter_stream) if it)
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
        # Commits neither wait behind reads nor for as long: a stop waits for them.
        self._commit_client = V3ioClient(access, connections=connections, call_seconds=_CALL_SECONDS)
        # On connections of its own: heartbeats don't wait behind reads.
        # A lost answer leaves time for another try before the session is over.
        beat_seconds = min(_CALL_SECONDS, settings.session_timeout_seconds / _HEARTBEATS_PER_SESSION)
        self._group_client = V3ioClient(access, connections=1, call_seconds=beat_seconds)
        self._clients = (self._client, self._commit_client, self._group_client)
        self._stream = V3ioStream(
            settings, self._client, self._commit_client, self._generation, self._on_started
        )
        self._assignment = Assignment(dispatch, self._stream, settings.limits)
        self._assignment.committer = Committer(self._stream.offsets, metrics)
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
            # No generation from here on, so nothing more is committed; then the session may go.
            self._membership = None
            if self._heartbeats is not None:
                await end_tasks([self._heartbeats])
            await membership.leave()

    async def _run(self) -> None:
        for client in self._clients:
            client.open()
        shard_count = await self._find_stream()
        # Before the first heartbeat: the fence has to be there once there is a lease to watch.
        self._fence.start()
        membership = self._membership = self._member_of(shard_count)
        self._problem = ""
        try:
            async with task_group(HeadraceError) as tasks:
                self._tasks = tasks
                self._stream.start(self._assignment, self._dispatch, tasks)
                # Not one of the group's tasks: it goes on while a stop waits for handlers.
                self._heartbeats = asyncio.create_task(membership.run_forever(), name="heartbeats")
                tasks.create_task(outcome(self._heartbeats), name="watch over heartbeats")
                commit_seconds = self._settings.sequence_number_commit_interval_seconds
                tasks.create_task(self._assignment.commit_forever(commit_seconds), name="commit")
        finally:
            membership.takes_more = False  # nobody would read it

    async def _find_stream(self) -> int:
        """Wait for the stream; return its number of shards. Raises V3ioError where that is forbidden."""
        stream = self._settings.stream
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
        # Not reached: the pauses have no end.
        raise AssertionError

    def _member_of(self, shard_count: int) -> V3ioMembership:
        settings, count = self._settings, self._spec.replica_count
        name = settings.consumer_group
        if (attribute := escaped(name)) != name:
            message = "group %s keeps its offsets as %s: names of attributes have letters, digits and _ alone"
            logger.warning(message, name, attribute)
        message = "%s: %d shards for a group of %d, by spec.replicas or --replicas"
        logger.info(message, settings.stream, shard_count, count)
        return V3ioMembership(
            StateItem(self._group_client, settings.stream, name),
            ShardAssignor(count, shard_count, int(settings.session_timeout_seconds * 1e9)),
            self._metrics.function,
            settings.heartbeat_interval_seconds,
            self,
        )

    # ---- called by the membership

    def on_renewed(self, sent_ns: int) -> None:
        """Renew the lease, which keeps workers running and commits possible, from `sent_ns` on."""
        self._lease.renew(sent_ns + int(self._settings.session_timeout_seconds * 1e9))
        self._dispatch.dispatch()  # nothing is handed out while it is over

    def on_gained(self, shards: Collection[int]) -> None:
        """Assign the shards; a task reads where they start."""
        membership = self._membership
        # A stop may have begun while this heartbeat's answer was on its way: nobody would read these shards.
        if membership is None or not membership.takes_more:
            return
        if not shards:
            logger.info("group %s has no shard for this replica: it stands by", self._settings.consumer_group)
            return
        self._metrics.rebalances.inc()
        self._problem = "reading where to start"
        keys = [PartitionKey(self._settings.topic, shard) for shard in shards]
        self._assignment.on_assigned(keys, membership.generation, self._tasks)

    async def are_others_further(self) -> bool:
        """Whether more is committed of its shards than was handled here, or where they start isn't known."""
        membership, partitions = self._membership, list(self._assignment.partitions.values())
        if membership is None or len(partitions) < len(membership.member.shards):
            return True
        # What workers have done lately is in shared memory: without it own work would look like others'.
        self._dispatch.sync_progress()
        found = await asyncio.gather(*(self._stream.offsets.read(it.key.partition) for it in partitions))
        pairs = [(it.committed, own) for it, own in zip(found, partitions, strict=True) if it is not None]
        return any(at is not None and at.offset > own.checkpoint.offset for at, own in pairs)

    async def on_lost(self) -> None:
        """End the workers that are in records of its shards; nothing is committed."""
        self._metrics.rebalances.inc()
        self._problem = ""
        # Nobody waits for handlers: the shards are others' already, and what these do is done twice.
        await self._assignment.give_back(0, 0)

    def _on_started(self) -> None:
        self._problem = ""

    def _generation(self) -> int | None:
        membership = self._membership
        return None if membership is None or self._lease.is_over else membership.generation

    # ---- what others see

    def problems(self) -> list[str]:
        """Return why no records flow, or why some don't, one line each."""
        of_group = self._problem or (self._membership.problem if self._membership else "")
        return [
            *self._assignment.problems(of_group),
            *(["no heartbeat was written for sessionTimeout"] if self._lease.is_over else []),
            *self._stream.problems(),
        ]

    def status(self) -> TriggerStatus:
        """Return the group membership and the shards."""
        settings, membership = self._settings, self._membership
        about = {
            "stream": str(settings.stream),
            "consumerGroup": settings.consumer_group,
            "memberId": membership.member.id if membership else None,
            "replicas": self._spec.replica_count,
        }
        age = self._assignment.committer.seconds_since_last
        return TriggerStatus(about, self._assignment.statuses(), last_commit_seconds=age)
