"""A Kafka group's partitions, as their assignment sees them: starts, positions, ends, dead letters."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.assignment import StartOffsets
from headrace.runtime.wire.records import WireRecord
from headrace.triggers.kafka.dead_letters import KafkaDeadLetters
from headrace.triggers.kafka.end_offsets import EndOffsets
from headrace.triggers.kafka.fetching import Fetching
from headrace.triggers.kafka.group.membership import GroupMembership
from headrace.triggers.kafka.group.offsets import GroupOffsets
from headrace.triggers.kafka.log_watcher import LogWatcher
from headrace.triggers.kafka.produce.output_producer import OutputProducer
from headrace.triggers.kafka.ranges import read_record
from headrace.triggers.kafka.settings.model import KafkaSettings
from headrace.triggers.kafka.start_offsets import read_ends, read_starts

T = TypeVar("T")


class KafkaStream:
    """Keeps Stream, once it is connected."""

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
        """`takes_acks`: whether somebody will ask where partitions end, before a fetch has said it."""
        self._settings = settings
        self._dead_letters = dead_letters
        self.produce = outputs.produce
        self._client_id = client_id
        self._takes_acks = takes_acks
        self.ends = EndOffsets({})
        """Its owner sets it."""
        self.on_started = on_started

    def connect(
        self,
        consumer: AIOKafkaConsumer,
        admin: AIOKafkaAdminClient,
        group: tuple[GroupMembership, GroupOffsets],
        fetching: Fetching,
        logs: LogWatcher,
    ) -> None:
        """What exists from then on."""
        self._consumer, self._admin = consumer, admin
        self._membership, self._offsets = group
        self.fetching, self._logs = fetching, logs

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        """The group's commits, or initialOffset."""
        await self._offsets.begin(keys)
        tps = [TopicPartition(*key) for key in keys]
        found = await read_starts(self._consumer, self._admin, self._settings, tps, self._offsets)
        asked = [tp for tp, start in found.checkpoints.items() if self._takes_acks or not start.is_bare]
        ends = await read_ends(self._consumer, asked) if asked else {}
        self._offsets.topics = self._offsets.topics.merged(found.topics)  # others may begin meanwhile
        self._offsets.begun |= {PartitionKey(*tp): found.topics.ids[tp.topic] for tp in found.checkpoints}
        for tp in found.checkpoints:  # others may have read it meanwhile, from another log
            self.fetching.epochs.forget(tp)
        for name in sorted(found.made_anew):
            self._logs.report_made_anew(name, [key for key in keys if key.topic == name])
        return StartOffsets(_by_key(found.checkpoints), _by_key(found.committed), _by_key(ends))

    async def position(self, key: PartitionKey) -> int:
        """By the consumer."""
        position: int = await self._consumer.position(TopicPartition(*key))
        return position

    def seek(self, key: PartitionKey, offset: int) -> None:
        """By the consumer."""
        self._membership.seek(TopicPartition(*key), offset)

    def log_id(self, key: PartitionKey) -> str:
        """Of its topic."""
        return self._offsets.begun.get(key, "")

    def on_room(self, partition: AssignedPartition) -> None:
        """Fetch it, or not."""
        self.fetching.on_room(partition)

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these no more."""
        keys = list(keys)
        self.ends.forget(keys)
        self.fetching.on_left(keys)
        self._membership.drop(keys)

    def end_of(self, key: PartitionKey) -> int:
        """The high watermark of the last fetch, or what was asked since."""
        tp = TopicPartition(*key)
        fetched = (self._consumer.highwater(tp) if tp in self._consumer.assignment() else None) or 0
        return max(fetched, self.ends.get(key))

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """To the dead-letter topic. Of a range, which nobody has fetched, it is read first."""
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
