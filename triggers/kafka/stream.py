"""A Kafka group's partitions for their assignment: starts, positions, ends, dead letters."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.assignment import Assignment
from headrace.runtime.streams.stream import StartOffsets
from headrace.runtime.wire.records import WireRecord
from headrace.triggers.kafka.dead_letters import KafkaDeadLetters
from headrace.triggers.kafka.end_offsets import EndOffsets
from headrace.triggers.kafka.fetching import Fetching
from headrace.triggers.kafka.group.membership import GroupMembership
from headrace.triggers.kafka.group.offsets import GroupOffsets
from headrace.triggers.kafka.log_watcher import LogWatcher
from headrace.triggers.kafka.produce.output_producer import OutputProducer
from headrace.triggers.kafka.ranges import RangeWatcher, read_record
from headrace.triggers.kafka.settings.model import KafkaSettings
from headrace.triggers.kafka.start_offsets import read_end_offsets, read_start_offsets

T = TypeVar("T")


class KafkaStream:
    """Partitions of one trigger, for its Assignment: a `Stream` of runtime/streams.

    An Assignment exists before any client does, so a stream is made first and connected later: nothing but
    `produce` is called before `connect`.
    """

    fetching: Fetching

    def __init__(  # noqa: PLR0913  # what a stream is made of
        self,
        settings: KafkaSettings,
        dead_letters: KafkaDeadLetters,
        outputs: OutputProducer,
        client_id: str,
        on_started: Callable[[], None],
        *,
        takes_acks: bool,
    ) -> None:
        """`on_started` is called whenever assigned partitions have begun.

        `takes_acks`: whether somebody will ask where partitions end, before a fetch has said it.
        """
        self._settings = settings
        self._dead_letters = dead_letters
        self.produce = outputs.produce
        self._client_id = client_id
        self._takes_acks = takes_acks
        self._on_started = on_started
        self._ends = EndOffsets()
        self._range_watcher: RangeWatcher | None = None  # with delivery: ranges

    def connect(
        self,
        clients: tuple[AIOKafkaConsumer, AIOKafkaAdminClient],
        group: tuple[GroupMembership, GroupOffsets],
        assignment: Assignment,
        dispatch: Dispatch,
        metrics: TriggerMetrics,
    ) -> None:
        """Make what needs a client: fetching, and the watchers of logs and ends. Once, before a join."""
        consumer, self._admin = clients
        self._consumer = consumer
        self._membership, self._offsets = group
        self._assigned = assignment.partitions
        logs = self._logs = LogWatcher(clients, self._settings, assignment, self._offsets, metrics)
        on_out_of_range = logs.on_out_of_range
        self.fetching = Fetching(consumer, assignment, dispatch, self._settings, logs.epochs, on_out_of_range)
        self.fetching.install()
        if dispatch.policy.is_ranges:
            self._range_watcher = RangeWatcher(consumer, dispatch, assignment, on_out_of_range)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run all that was connected, until `tasks` end."""
        if self._range_watcher is not None:
            tasks.create_task(self._range_watcher.run_forever(), name="ends")
        tasks.create_task(self.fetching.run_forever(), name="fetch")
        tasks.create_task(self._logs.run_forever(), name="logs")
        tasks.create_task(self._ends.follow_forever(self._consumer, self._assigned), name="lag")

    def on_started(self) -> None:
        """Look for records of what has begun at once, not with the next timeout."""
        self._on_started()
        self.fetching.wake()
        if self._range_watcher is not None:
            self._range_watcher.look_now()

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        """Return the group's commits, or initialOffset where it has none."""
        # With exactlyOnce this makes the producers, which ends what an old owner has left open: only then is
        # what the group has committed final.
        await self._offsets.begin(keys)
        tps = [TopicPartition(*key) for key in keys]
        found = await read_start_offsets(self._consumer, self._admin, self._settings, tps, self._offsets)
        # A checkpoint that says more than an offset is judged by where its log ends; acks may come ahead of a
        # fetch.
        asked = [tp for tp, start in found.checkpoints.items() if self._takes_acks or not start.is_bare]
        ends = await read_end_offsets(self._consumer, asked) if asked else {}
        self._offsets.topics = self._offsets.topics.merged(found.topics)  # others may begin meanwhile
        # From now on every commit of these carries the id of the log that they have begun by.
        self._offsets.begun |= {PartitionKey(*tp): found.topics.ids[tp.topic] for tp in found.checkpoints}
        for tp in found.checkpoints:  # others may have read it meanwhile, from another log
            self.fetching.epochs.forget(tp)
        for name in sorted(found.made_anew):
            self._logs.report_made_anew(name, [key for key in keys if key.topic == name])
        return StartOffsets(_by_key(found.checkpoints), _by_key(found.committed), _by_key(ends))

    async def position(self, key: PartitionKey) -> int:
        """Return the consumer's position."""
        position: int = await self._consumer.position(TopicPartition(*key))
        return position

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Have the consumer go on from there."""
        self._membership.seek(TopicPartition(*key), offset)

    def log_id(self, key: PartitionKey) -> str:
        """Return the id of the partition's topic."""
        return self._offsets.begun.get(key, "")

    def on_room(self, partition: AssignedPartition) -> None:
        """Fetch the partition, or not."""
        self.fetching.on_room(partition)

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these no more."""
        keys = list(keys)
        self._ends.forget(keys)
        self.fetching.on_left(keys)
        self._membership.drop(keys)

    def end_of(self, key: PartitionKey) -> int:
        """Return the high watermark of the last fetch, or what was asked since."""
        tp = TopicPartition(*key)
        # What is no longer assigned has no high watermark, and asking for it would raise.
        fetched = (self._consumer.highwater(tp) if tp in self._consumer.assignment() else None) or 0
        return max(fetched, self._ends.get(key))

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Write a record to the dead-letter topic. Return False where it isn't there any more.

        A record of a range, which nobody has fetched, is read first.
        """
        key = partition.key
        if partition.lane.buffer.holds_ranges:
            found = await read_record(self._settings, self._client_id, TopicPartition(*key), record.offset)
            if found is None:
                return False
            record = found
        await self._dead_letters.write(record, key.topic, key.partition, reason, attempts)
        return True


def _by_key(by_tp: Mapping[TopicPartition, T]) -> dict[PartitionKey, T]:
    return {PartitionKey(*tp): it for tp, it in by_tp.items()}
