"""The Kafka trigger: one consumer in the group, feeding one dispatcher.

Read `run`, `stop` and `_run` for its life. What is fetched, watched and committed is its stream's (stream.py)
and its assignment's (runtime/streams).
"""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from typing import NoReturn

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.errors import HeadraceError
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.assignment import Assignment
from headrace.runtime.streams.committer import Committer
from headrace.runtime.streams.isolated_decoder import IsolatedDecoder
from headrace.runtime.tasks import outcome, task_group
from headrace.runtime.wire.lease import now_ns
from headrace.runtime.workers.fence import Fence
from headrace.triggers.base import EmbeddedNeeds, Trigger, TriggerStatus
from headrace.triggers.kafka.client.connect import connect
from headrace.triggers.kafka.client.errors import explained
from headrace.triggers.kafka.client.reauthentication import SignInWatch
from headrace.triggers.kafka.dead_letters import KafkaDeadLetters
from headrace.triggers.kafka.group.joining import open_membership
from headrace.triggers.kafka.group.membership import GroupMembership
from headrace.triggers.kafka.group.offsets import GroupOffsets, log_commit_expiry
from headrace.triggers.kafka.produce.output_producer import OutputProducer
from headrace.triggers.kafka.settings.model import KafkaOutputSettings, KafkaSettings
from headrace.triggers.kafka.stream import KafkaStream
from headrace.triggers.kafka.topic_subscription import TopicSubscription

logger = logging.getLogger(__name__)

_LEAVE_TIMEOUT_SECONDS = 5.0


class KafkaTrigger(Trigger):
    """The trigger's life: it owns the consumer and its membership.

    What the group has given is its assignment's.
    """

    @staticmethod
    def delivery(settings: KafkaSettings, fields: TriggerFields) -> DeliveryPolicy:
        """Return the policy: one lane for each partition, or key.

        Workers decode, where nobody here need look at records.
        """
        common, is_ranges = fields.delivery, settings.delivery == "ranges"
        return replace(
            common,
            worker_allocation_mode=settings.worker_allocation_mode,
            ordering=settings.ordering,
            max_concurrency=settings.max_concurrency,
            explicit_ack_semantics=settings.explicit_ack_semantics,
            ack_window_size=settings.ack_window_size,
            ack_deadline_seconds=(settings.ack_deadline_seconds or None)
            if common.ack_mode.is_explicit
            else None,
            failure=settings.on_failure.policy,
            decoder=settings.decoder,
            decoder_options={"max_batch_bytes": settings.max_batch_bytes} if settings.decoder else {},
            event=settings.event,
            result_topic=settings.result_topic,
            exactly_once=settings.exactly_once,
            is_ranges=is_ranges,
            source_options=settings.spark_source_options if is_ranges else {},
            max_processing_time_seconds=settings.max_processing_time_seconds,
            fetch_max_bytes=settings.fetch_max_bytes or None,
        )

    @staticmethod
    def embedded(settings: KafkaSettings) -> EmbeddedNeeds:
        """Return a Kafka with all topics that the function reads and writes by itself."""
        others = (settings.on_failure.dead_letter_topic, settings.result_topic)
        topics = (*settings.topics, *filter(None, others))
        return EmbeddedNeeds("kafka", topics, lambda at: settings.model_copy(update={"brokers": at}))

    @staticmethod
    def open_output(settings: KafkaOutputSettings, client_id: str) -> OutputProducer:
        """Return an output to a cluster that is no trigger's."""
        return OutputProducer(settings.access, client_id)

    def __init__(
        self, spec: TriggerSpec, dispatch: Dispatch, metrics: TriggerMetrics, client_id: str
    ) -> None:
        settings: KafkaSettings = spec.settings.of_replica(spec.replica_index)
        self._spec = spec
        self._settings = settings
        self._dispatch = dispatch
        self._metrics = metrics
        self._client_id = client_id
        dead_letter_topic = settings.on_failure.dead_letter_topic
        opener = IsolatedDecoder(dispatch.policy)
        self._dead_letters = KafkaDeadLetters(
            settings, dead_letter_topic, metrics.function, client_id, opener
        )
        self._outputs = OutputProducer(settings.access, client_id)
        self._stream = KafkaStream(
            settings,
            self._dead_letters,
            self._outputs,
            client_id,
            self._on_started,
            takes_acks=dispatch.policy.ack_mode.is_explicit,
        )
        self._assignment = Assignment(dispatch, self._stream, settings.limits)
        self._offsets: GroupOffsets
        self._problem = "connecting"
        self._sign_ins = SignInWatch(settings.access)
        self._lease = dispatch.lease
        # A frozen processor can't know that its partitions have gone to somebody else: the fence is another
        # process.
        self._fence = Fence(self._lease)
        self._answered_ns = 0  # when the group has last answered
        self._late_ack_seconds = dispatch.policy.late_ack_seconds
        self._is_stopping = False
        self._loops: asyncio.Task[None] | None = None
        self._tasks: asyncio.TaskGroup
        self._consumer: AIOKafkaConsumer | None = None
        self._membership: GroupMembership | None = None
        self._admin: AIOKafkaAdminClient

    # ---- start, run, stop

    async def run(self) -> None:
        """Connect, join the group, fetch and commit until stopped."""
        self._loops = asyncio.create_task(self._run(), name=f"trigger-{self._spec.name}")
        await outcome(self._loops)

    async def stop(self, wait_seconds: float) -> None:
        """Give everything back, commit, leave the group."""
        self._is_stopping = True
        if self._loops is not None:
            self._loops.cancel()
            await asyncio.wait([self._loops])
        membership = self._membership
        if self._consumer is None or membership is None:
            return
        try:
            await self._assignment.give_back(wait_seconds, self._late_ack_seconds)
        finally:
            # From here on callbacks of the group are ignored: nothing of it is here any more.
            # Not before: a rebalance that comes now has to wait for the last commit.
            self._consumer = None
            await self._leave(membership)
            await self._dead_letters.close()
            await self._outputs.close()
            await self._offsets.close()
            await self._fence.stop()

    async def _leave(self, membership: GroupMembership) -> None:
        """Leave the group. A broker that is frozen, or in a rebalance, must not hold up the stop."""
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_SECONDS):
                await membership.leave()
                await self._admin.close()
        except (TimeoutError, KafkaError) as error:
            why = str(error) or f"no answer within {_LEAVE_TIMEOUT_SECONDS:g} s"
            logger.warning("leaving the group failed (%s): it notices by sessionTimeout", why)

    async def _run(self) -> None:
        settings = self._settings
        try:
            consumer, self._admin = await connect(settings, self._client_id, self._on_away)
            await log_commit_expiry(self._admin, settings)
            membership = self._open(consumer)
            self._problem = f"waiting for {'topics ' if settings.topics else ''}{settings.all_topics}"
            topics = self._topics = TopicSubscription(consumer, self._admin, settings, membership)
            await topics.subscribe()
            self._problem = f"joining group {settings.consumer_group}"
            async with task_group(KafkaError, HeadraceError) as tasks:
                self._tasks = tasks
                tasks.create_task(membership.watch(), name="membership")
                self._stream.start(tasks)
                results = self._outputs.cluster.watch_at_start(self._admin, settings.result_topic)
                tasks.create_task(results, name="resultTopic")
                tasks.create_task(topics.follow_forever(), name="topicPattern")
                tasks.create_task(self._assignment.commit_forever(), name="commit")
        except KafkaError as error:
            raise await explained(error, settings, self._admin) from None

    def _on_away(self, why: str) -> None:
        self._problem = why

    def _open(self, consumer: AIOKafkaConsumer) -> GroupMembership:
        """Make what needs a client, before the group is joined."""
        clients = consumer, self._admin
        self._consumer, self._answered_ns = consumer, now_ns()
        membership, offsets = open_membership(
            clients,
            self._settings,
            self._late_ack_seconds,
            self,
            self._metrics.failed_joins.inc,
            (self._outputs.cluster, self._client_id),
        )
        self._membership, self._offsets = membership, offsets
        self._assignment.committer = Committer(offsets, self._metrics)
        self._stream.connect(clients, (membership, offsets), self._assignment, self._dispatch, self._metrics)
        # Before the first assignment, whose records it has to fence.
        self._fence.start()
        # After the start, whose refusals end the replica: those that come later are waited out.
        for client in (consumer._client, self._admin._client):  # noqa: SLF001
            self._sign_ins.watch(client)
        return membership

    # ---- the membership's word

    def on_renewed(self, end_ns: int) -> None:
        """Renew the lease: what the workers have is theirs until then."""
        self._answered_ns = now_ns()
        # From when the answered request was sent: the broker counts the session from when it got that, or
        # later.
        self._lease.renew(end_ns)
        self._dispatch.dispatch()  # nothing is handed out while it is over

    async def on_revoked(self, keys: Collection[PartitionKey] | None, *, is_lost: bool) -> None:
        """Give them back, whoever gets them next. Heartbeats go on meanwhile."""
        if self._consumer is None:
            return
        if keys is None:
            self._problem = f"group {self._settings.consumer_group} is rebalancing"
        if is_lost and self._assignment.partitions:
            logger.error("the membership in the group is lost: its records are dropped here, uncommitted")
        # A lost membership: others have the partitions already, so there is nothing to wait for.
        wait_seconds = 0 if is_lost else self._settings.max_wait_handler_during_rebalance_seconds
        late_ack_seconds = 0 if is_lost else self._late_ack_seconds
        try:
            await self._assignment.give_back(wait_seconds, late_ack_seconds, keys)
            if keys is None:
                # All members join again after this: with topics that are there by now no other rebalance is
                # needed.
                await self._topics.refresh()
        except Exception as error:
            # The member would go on in its group, with handlers of this assignment still running.
            self._tasks.create_task(_raise(error), name="revoke")
            await asyncio.Event().wait()

    def on_assigned(self, keys: Collection[PartitionKey]) -> None:
        """Begin with these in a task: heartbeats wait for this to return."""
        membership = self._membership
        if self._consumer is None or membership is None or self._is_stopping:
            return
        # Also for none: it has joined, and stands by.
        self._metrics.rebalances.inc()
        mine = [key for key in keys if self._settings.takes(key.partition)]
        if others := len(keys) - len(mine):
            logger.info("%d assigned partitions are left alone: not in `partitions`", others)
        # Commits of these carry it, and are refused once the group has gone on.
        generation = membership.generation
        self._assignment.on_assigned(mine, -1 if generation is None else generation, self._tasks)

    def _on_started(self) -> None:
        self._problem = ""

    # ---- what others see

    def problems(self) -> list[str]:
        """Return why no records flow, or why some don't."""
        of_group = self._joining_problem or self._problem
        others = filter(None, (self._sign_ins.problem, self._silence(), *self._outputs.problems()))
        return list(dict.fromkeys([*self._assignment.problems(of_group), *others]))

    def _silence(self) -> str:
        """Return since when nothing was heard about the group, where that is long.

        A failed join says more: then nothing is said here.
        """
        seconds = (now_ns() - self._answered_ns) / 1e9 if self._consumer else 0.0
        if seconds < self._settings.session_timeout_seconds or self._joining_problem:
            return ""
        return f"{self._settings.access} has not answered about the group for {seconds:.0f} s"

    @property
    def _joining_problem(self) -> str:
        return self._membership.problem if self._membership else ""

    def status(self) -> TriggerStatus:
        """Return group membership and partitions."""
        consumer = self._consumer
        subscribed = consumer.subscription() if consumer else ()
        about = {
            "topics": sorted(subscribed or self._settings.topics),
            "consumerGroup": self._settings.consumer_group,
            "brokers": list(self._settings.brokers),
            **(self._membership.status() if self._consumer and self._membership else {"generation": None}),
        }
        age = self._assignment.committer.seconds_since_last if consumer else None
        buffered_bytes = self._stream.fetching.buffered_bytes if consumer else 0
        return TriggerStatus(about, self._assignment.statuses(), buffered_bytes, age)


async def _raise(error: BaseException) -> NoReturn:
    raise error
