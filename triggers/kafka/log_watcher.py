"""Changes of the logs behind an assignment's partitions: cut at either end, replaced, joined by new ones."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.assignment import Assignment
from headrace.triggers.kafka.client import fetches
from headrace.triggers.kafka.client.epochs import LeaderEpochs, ReadEpoch, end_of_epoch
from headrace.triggers.kafka.client.internals import refresh_metadata
from headrace.triggers.kafka.client.topics import TopicDescription, describe_topics
from headrace.triggers.kafka.group.offsets import GroupOffsets
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)

# One question about the trigger's own topics, from each of its replicas.
_INTERVAL_SECONDS = 3.0
_ANSWER_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_FAILURES_BEFORE_WARNING = 2  # in a row: a broker may end a connection as it likes, and the next one does
_DOUBT_SECONDS = 0.5


class LogWatcher:
    """A look at the trigger's topics every few seconds, and at once where a position is out of range.

    Apart from the fetch loop, which goes on with the partitions that nothing has happened to.
    """

    def __init__(
        self,
        clients: tuple[AIOKafkaConsumer, AIOKafkaAdminClient],
        settings: KafkaSettings,
        assignment: Assignment,
        offsets: GroupOffsets,
        metrics: TriggerMetrics,
    ) -> None:
        self._consumer, self._admin = clients
        self._settings = settings
        self._wait_seconds = settings.max_wait_handler_during_rebalance_seconds
        self._assignment = assignment
        self._offsets = offsets
        self._metrics = metrics
        self._suspected_ids: dict[str, str] = {}  # topics that another id was heard of once
        self._lost: dict[AssignedPartition, int] = {}
        failure = settings.on_failure
        self._dead_letter_topic = failure.dead_letter_topic if failure.then == "deadLetter" else ""
        self._has_dead_letter_topic = True
        self._is_due = asyncio.Event()
        self._is_due.set()
        self.epochs = LeaderEpochs(self._is_due.set)

    def on_out_of_range(self, positions: Mapping[TopicPartition, int]) -> None:
        """Look at once: these positions are not in their logs."""
        for tp, position in positions.items():
            if (partition := self._assignment.partitions.get(PartitionKey(*tp))) is not None:
                self._lost[partition] = position
        self._is_due.set()

    async def run_forever(self) -> None:
        """Look until cancelled. What can't be read yet is tried again."""
        failures = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_SECONDS):
                    await self._is_due.wait()
            # Cleared before the look: what is reported during it is looked at next.
            self._is_due.clear()
            steps = (self._settle_doubts, self._check_topics)
            errors = [error for step in steps if (error := await _error_of(step))]
            failures = failures + 1 if errors else 0
            if failures == _FAILURES_BEFORE_WARNING:
                logger.warning("what the topics are now can't be read yet (%r); trying again", errors[0])
            if errors:
                await asyncio.sleep(_RETRY_SECONDS)
                if self._lost or self.epochs.doubted:
                    self._is_due.set()

    def report_made_anew(self, topic: str, partitions: Collection[PartitionKey]) -> None:
        """Report that these partitions of a topic made anew begin at their beginning."""
        self._metrics.offset_resets.inc(len(partitions))
        logger.error(
            "topic %s was made anew: offsets of the one before count no more, and its %d partitions here "
            "are read from their beginning",
            topic,
            len(partitions),
        )

    async def _check_topics(self) -> None:
        topics = self._consumer.subscription()
        names = {*topics, self._dead_letter_topic} - {""}
        async with asyncio.timeout(_ANSWER_SECONDS):
            found = await describe_topics(self._admin, names)
        if self._dead_letter_topic:
            self._report_dead_letter_topic(is_there=self._dead_letter_topic in found)
        # The client looks by itself once a minute only, and the group's leader rebalances by what its client
        # knows.
        if any(self._is_unknown_to_client(name, found.get(name)) for name in topics):
            refresh_metadata(self._consumer)
        for name, topic in found.items():
            await self._follow_topic(name, topic)
        await self._resume_lost()

    def _report_dead_letter_topic(self, *, is_there: bool) -> None:
        """Report a missing dead-letter topic, once, before a record needs it."""
        name = self._dead_letter_topic
        if not is_there and self._has_dead_letter_topic:
            logger.warning(
                "no such dead-letter topic: %s (headrace kafka topics --create %s:8 makes one%s); until it "
                "is there, a record that has spent its attempts stays where it is, uncommitted",
                name,
                name,
                self._settings.access.or_hidden,
            )
        elif is_there and not self._has_dead_letter_topic:
            logger.info("dead-letter topic %s is there now", name)
        self._has_dead_letter_topic = is_there

    def _is_unknown_to_client(self, name: str, topic: TopicDescription | None) -> bool:
        """Whether the client doesn't know yet that the topic has come, gone or grown."""
        count = topic.partition_count if topic is not None else 0
        return len(self._consumer.partitions_for_topic(name) or ()) != count

    async def _follow_topic(self, name: str, topic: TopicDescription) -> None:
        """Begin anew what belongs to a topic that was made anew: a name is no identity.

        A fetch goes on in whatever log has the name now.
        """
        offsets = self._offsets
        if topic.id in offsets.topics.gone:
            return
        mine = [key for key in self._assignment.partitions if key.topic == name]
        outdated = [key for key in mine if offsets.begun[key] != topic.id]
        if not outdated and not offsets.topics.is_made_anew(name, topic.id):
            self._suspected_ids.pop(name, None)
        elif self._suspected_ids.get(name) != topic.id:
            self._suspected_ids[name] = (
                topic.id
            )  # a broker may lag behind: another answer has to say the same
            asyncio.get_running_loop().call_later(_DOUBT_SECONDS, self._is_due.set)
        else:
            del self._suspected_ids[name]
            # To a group that goes by ids, those of before leave, and others may be given the new ones.
            leaving = [key for key in outdated if offsets.given_id(key) not in {None, topic.id}]
            staying = [key for key in outdated if key not in leaving]
            if staying or not leaving:
                self.report_made_anew(name, staying)
            # Known before anything is awaited: commits that begin from now on carry the new id.
            offsets.topics = offsets.topics.with_anew(name, topic.id)
            # No commit of old offsets can get the new id: a restart forbids those before it awaits anything.
            offsets.begun |= dict.fromkeys(staying, topic.id)
            await self._restart(dict.fromkeys(staying, Checkpoint(0)))
            await self._assignment.start_anew(leaving, self._wait_seconds)

    async def _resume_lost(self) -> None:
        """Go on where the logs begin, for positions that they no longer have."""
        partitions = self._assignment.partitions
        # What is reported while the broker is asked counts as new.
        lost, self._lost = self._lost, {}
        lost = {it: position for it, position in lost.items() if partitions.get(it.key) is it}
        if not lost:
            return
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                asked = [TopicPartition(*it.key) for it in lost]
                beginnings = await self._consumer.beginning_offsets(asked)
        except BaseException:
            self._lost |= lost
            raise
        starts = {}
        for partition, position in lost.items():
            if self._lost.get(partition) == position:
                del self._lost[partition]  # a request from before has been answered meanwhile
            start = beginnings[TopicPartition(*partition.key)]
            if partitions.get(partition.key) is not partition:
                continue
            self._report_lost(partition, position, start)
            # Retention has overtaken the fetch: what was fetched before is handed out all the same. Ranges,
            # which were not fetched, begin anew.
            if start > position and not partition.lane.buffer.holds_ranges:
                self._assignment.go_on_from(partition, start)
            else:
                starts[partition.key] = Checkpoint(start)
        await self._restart(starts)

    def _report_lost(self, partition: AssignedPartition, position: int, start: int) -> None:
        self._metrics.offset_resets.inc()
        why = "its log ends before that"
        if (count := start - position) > 0:
            self._metrics.deleted_unread.inc(count)
            why = f"{count} offsets, {position} to {start - 1}, were deleted before they were read"
        message = "%s: offset %d is out of range, going on with %d; %s"
        logger.error(message, partition, position, start, why)

    async def _settle_doubts(self) -> None:
        """Ask new leaders where epochs end: their logs may end earlier than those of the ones before."""
        doubted = list(self.epochs.doubted.items())
        ends = await asyncio.gather(*(self._end_of_epoch(*it) for it in doubted), return_exceptions=True)
        errors = [end for end in ends if isinstance(end, BaseException)]
        cut: dict[PartitionKey, Checkpoint] = {}
        for (tp, read), end in zip(doubted, ends, strict=True):
            if isinstance(end, BaseException) or self.epochs.doubted.get(tp) is not read:
                continue
            partition = self._assignment.partitions.get(PartitionKey(*tp))
            if partition is not None and end is not None and end < min(read.end, _read_to(partition)):
                self._report_cut_off(partition, end, read.end)
                cut[partition.key] = Checkpoint(end)
            else:
                self.epochs.settle(tp)
        # What is no longer in doubt may be fetched: nothing else would wake a fetch that waits.
        fetches.wake(self._consumer)
        # In doubt until the restart has sought back: a fetch before that would take in records behind the
        # gap.
        await self._restart(cut)
        for key in cut:
            self.epochs.settle(TopicPartition(*key))
        if errors:
            raise errors[0]

    async def _end_of_epoch(self, tp: TopicPartition, read: ReadEpoch) -> int | None:
        """Return where it ends; None where the broker can't tell, or nobody has the partition here."""
        if PartitionKey(*tp) not in self._assignment.partitions:
            return None
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await end_of_epoch(self._consumer, tp, read.epoch)

    def _report_cut_off(self, partition: AssignedPartition, end: int, read_end: int) -> None:
        self._metrics.offset_resets.inc()
        logger.error(
            "%s: the broker has lost offsets %d to %d, and others have taken their places: going on with %d",
            partition,
            end,
            read_end - 1,
            end,
        )

    async def _restart(self, starts: Mapping[PartitionKey, Checkpoint]) -> None:
        if starts:
            await self._assignment.restart(starts, self._wait_seconds)


async def _error_of(step: Callable[[], Awaitable[None]]) -> Exception | None:
    try:
        await step()
    except (KafkaError, TimeoutError) as error:
        return error
    return None


def _read_to(partition: AssignedPartition) -> int:
    """Return up to where its records are known here, those included that are to be delivered again."""
    return max(partition.ledger.position, partition.fetched_before)
