"""The topics that a function writes to: where they ended amid commits, and all that is in them."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord
from broker import Broker
from commits import Sample
from history import RecordId
from results import Look, Result

from headrace.runtime.kafka.dead_letter_headers import split_headers

_LOOK_SECONDS = 0.1


@contextmanager
def watched(broker: Broker, group: str, topics: Mapping[str, int]) -> Iterator[list[Look]]:
    """Looks, all the time, and once more in the end. The topics have so many partitions."""
    looks: list[Look] = []
    over = threading.Event()
    outputs = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]

    def watch() -> None:
        while not over.is_set():
            asyncio.run(_watch(broker, group, outputs, looks, over.is_set))
        asyncio.run(_watch(broker, group, outputs, looks, over.is_set))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield looks
    finally:
        over.set()
        thread.join()


async def _watch(
    broker: Broker, group: str, outputs: list[TopicPartition], looks: list[Look], is_over: Callable[[], bool]
) -> None:
    """Until the broker goes. At least one look, where it is there."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap, request_timeout_ms=3000)
    # What isn't committed yet lies in the log all the same, so its end may be that of any reader.
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, request_timeout_ms=3000)
    with suppress(KafkaError, OSError):
        try:
            await admin.start()
            await consumer.start()
            looks.append(await _look(admin, group, consumer, outputs))
            while not is_over():
                await asyncio.sleep(_LOOK_SECONDS)
                looks.append(await _look(admin, group, consumer, outputs))
        finally:
            await consumer.stop()
            await admin.close()


async def _look(
    admin: AIOKafkaAdminClient, group: str, consumer: AIOKafkaConsumer, outputs: list[TopicPartition]
) -> Look:
    """The commits first: their results have to be there by then."""
    committed = await admin.list_consumer_group_offsets(group)
    offsets = {(tp.topic, tp.partition): it.offset for tp, it in committed.items()}
    sample = Sample(time.monotonic_ns(), offsets)
    ends = await consumer.end_offsets(outputs)
    return Look(sample, {(tp.topic, tp.partition): end for tp, end in ends.items()})


def read_results(broker: Broker, topic: str, source: str, *, is_once: bool) -> list[Result]:
    """All of them, by partition and offset; where it is about once, those of committed transactions."""
    found = asyncio.run(_read(broker, topic, "read_committed" if is_once else "read_uncommitted"))
    return [_result(it, (source, *_place(it.value))) for it in found]


def read_letters(broker: Broker, topic: str) -> list[Result]:
    """The same of dead letters, each with the record that it says it comes from."""
    found = asyncio.run(_read(broker, topic, "read_uncommitted"))
    sources = [(it, split_headers(it.headers)[1]) for it in found]
    assert all(source for _, source in sources)
    return [_result(it, (at.topic, at.partition, at.offset)) for it, at in sources if at]


def _place(text: bytes) -> tuple[int, int]:
    partition, offset = map(int, text.split()[:2])
    return partition, offset


def _result(record: ConsumerRecord, of: RecordId) -> Result:
    return Result(of, (record.topic, record.partition), record.offset)


async def _read(broker: Broker, topic: str, isolation: str) -> list[ConsumerRecord]:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
        isolation_level=isolation,
    )
    found: list[ConsumerRecord] = []
    async with consumer, AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None) as other:
        # Of the log: a broker ends a transaction some time after it has said so, and shows it only then.
        ends = await other.end_offsets(consumer.assignment())
        for tp, end in ends.items():
            while await consumer.position(tp) < end:  # past what isn't shown too
                found += (await consumer.getmany(tp, timeout_ms=100)).get(tp, [])
    return found
