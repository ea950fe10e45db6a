"""exactlyOnce of the product, with its own producers, on a client that is a model of a broker's answers.

The client keeps what PartitionProducer uses of aiokafka's AIOKafkaProducer. What is drawn is the member's.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol, cast

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    OffsetMetadataTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
)
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import OffsetAndMetadata
from group import Group

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.client.commits import Commit
from headrace.triggers.kafka.group.transactional_offsets import TransactionalOffsets
from headrace.triggers.kafka.produce.cluster import OutputCluster
from headrace.triggers.kafka.produce.partition_producer import PartitionProducer
from headrace.triggers.kafka.settings.model import KafkaSettings

_GROUP = "g"
_PARTITIONS = {0, 1}
"""Of every topic that is written to."""
_BATCH_BYTES = [100, 250, 1000]
_ANSWER_SECONDS = 0.02
_START_SECONDS = 0.05


class Replica(Protocol):
    """What a client needs of whose it is."""

    group: Group
    rng: random.Random
    generation: int | None
    is_cut_off: bool

    def may_fail(self, kind: Callable[[str], Exception]) -> None:
        """Raise `kind` now and then."""

    async def wait(self, most_seconds: float) -> None:
        """Some of it."""

    async def commit(self, offsets: Mapping[PartitionKey, tuple[int, str]]) -> None:
        """By one request, without messages. Raises what OffsetStore's write does."""


class _Written(NamedTuple):
    offset: int


class _Batch:
    """As aiokafka's BatchBuilder."""

    def __init__(self, most_bytes: int) -> None:
        self.values: list[bytes] = []
        self._most_bytes, self._bytes = most_bytes, 0

    def append(self, *, timestamp: int | None, key: bytes | None, value: bytes, headers: list[Any]) -> Any:
        """None where it is full."""
        added = DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers)
        if self.values and self._bytes + added > self._most_bytes:
            return None
        self.values.append(value)
        self._bytes += added
        return timestamp, added

    def size(self) -> int:
        return self._bytes


class _Client:
    """Whoever starts one for the same partition later fences it. A refused batch is counted all the same."""

    sender_task = None

    def __init__(self, replica: Replica, key: PartitionKey) -> None:
        self._replica, self._group, self._key = replica, replica.group, key
        self._epoch = self._group.next_epoch(key)
        self._sent: list[tuple[list[bytes], asyncio.Future[_Written]]] = []
        self._out_of_step: set[tuple[str, int]] = set()
        self._commit: tuple[int, str] | None = None
        self.client = self.cluster = self._sender = self._txn_manager = self

    # ---- what is known of the cluster

    def partitions_for_topic(self, _: str) -> set[int]:
        return _PARTITIONS

    def available_partitions_for_topic(self, _: str) -> set[int]:
        return _PARTITIONS

    def add_topic(self, _: str) -> None:
        """It keeps them all."""

    async def partitions_for(self, _: str) -> set[int]:
        return _PARTITIONS

    async def force_metadata_update(self) -> bool:
        return not self._replica.is_cut_off

    # ---- transactions

    async def begin_transaction(self) -> None:
        assert not self._out_of_step, "after what has failed there is no other"
        self._sent, self._commit = [], None

    def wait_for_transaction_end(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    def create_batch(self) -> _Batch:
        return _Batch(self._replica.rng.choice(_BATCH_BYTES))

    async def send_batch(self, batch: _Batch, topic: str, *, partition: int) -> asyncio.Future[_Written]:
        """What becomes of it. Some are sent only once those before them have ended."""
        rng, written = self._replica.rng, asyncio.get_running_loop().create_future()
        if self._sent and rng.random() < 0.3:
            await asyncio.wait([it for _, it in self._sent])
            assert not self._out_of_step, "it takes no more"
        answer = self._answer(batch, (topic, partition))
        self._sent.append((batch.values, written))
        seconds = rng.uniform(0, _ANSWER_SECONDS)
        asyncio.get_running_loop().call_later(seconds, _end, written, answer)
        return written

    def _answer(self, batch: _Batch, where: tuple[str, int]) -> KafkaError | None:
        """Why it is refused."""
        if where in self._out_of_step:
            return OutOfOrderSequenceNumber()
        if not self._group.too_large.isdisjoint(batch.values):
            self._out_of_step.add(where)
            return MessageSizeTooLargeError()
        return None

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: str
    ) -> None:
        ((tp, commit),) = offsets.items()
        assert (PartitionKey(*tp), group) == (self._key, _GROUP)
        await self._ask()
        if len(commit.metadata) > self._group.max_text_chars:
            raise OffsetMetadataTooLargeError
        self._commit = commit.offset, commit.metadata

    async def commit_transaction(self) -> None:
        """Whoever asks may not hear how it has ended."""
        assert self._commit is not None
        await self._ask()
        values = [value for values, _ in self._sent for value in values]
        self._group.end_transaction(self._key, self._commit, values)
        await self._ask()

    async def abort_transaction(self) -> None:
        await self._ask()

    async def _ask(self) -> None:
        await self._replica.wait(_ANSWER_SECONDS)
        self._replica.may_fail(KafkaError)
        if self._epoch != self._group.epochs[self._key]:
            raise ProducerFenced

    async def close(self) -> None:
        """Nothing is to be closed."""


def _end(written: "asyncio.Future[_Written]", answer: KafkaError | None) -> None:
    if written.cancelled():
        return
    if answer is None:
        written.set_result(_Written(-1))
    else:
        written.set_exception(answer)
        written.exception()  # whoever was cancelled hears nothing of it


class _Consumer:
    """A member's: its heartbeats, and its commits."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._coordinator = self

    @property
    def generation(self) -> int:
        return -1 if self._replica.generation is None else self._replica.generation

    async def _do_heartbeat(self) -> bool:
        await self._replica.wait(_ANSWER_SECONDS)
        if self._replica.is_cut_off:
            raise KafkaError("the broker doesn't answer")
        return self.generation == self._replica.group.generation

    async def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        await self._replica.commit({PartitionKey(*tp): said for tp, said in offsets.items()})


class ModelTransactions(TransactionalOffsets):
    """All but what starts a producer, and reads commits, is the product's."""

    def __init__(self, replica: Replica) -> None:
        clients = cast("tuple[AIOKafkaConsumer, AIOKafkaAdminClient]", (_Consumer(replica), None))
        settings = KafkaSettings.model_construct(consumer_group=_GROUP)
        super().__init__(clients, settings, OutputCluster(BrokerAccess("nowhere:9092")), "simulated")
        self._replica = replica

    async def read(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Commit]:
        await self._replica.wait(_ANSWER_SECONDS)
        self._replica.may_fail(KafkaError)
        texts = self._replica.group.texts
        return {tp: Commit(*texts[PartitionKey(*tp)]) for tp in partitions if PartitionKey(*tp) in texts}

    async def _make_first(self, key: PartitionKey) -> None:
        """However long it takes: nothing begins without."""
        while self._replica.is_cut_off:
            await self._replica.wait(_START_SECONDS)
        self._start_producer(key)

    async def _make(self, key: PartitionKey) -> None:
        await self._replica.wait(_START_SECONDS)
        self._replica.may_fail(KafkaError)
        self._start_producer(key)

    def _start_producer(self, key: PartitionKey) -> None:
        client, generation = _Client(self._replica, key), self.generation or -1
        self._producers[key] = PartitionProducer(client, self._cluster, _GROUP, key, generation)
