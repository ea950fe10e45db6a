"""The topic that a function produces to: where it ended while the group committed, and all that is in it."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from broker import Broker
from commits import Sample
from results import Look, Result

_LOOK_SECONDS = 0.1


@contextmanager
def watched(broker: Broker, group: str, topic: str, partitions: int) -> Iterator[list[Look]]:
    """Looks, all the time, and once more in the end."""
    looks: list[Look] = []
    over = threading.Event()
    outputs = [TopicPartition(topic, number) for number in range(partitions)]

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
    return Look(sample, {tp.partition: end for tp, end in ends.items()})


def read_results(broker: Broker, topic: str, source: str, *, is_once: bool) -> list[Result]:
    """All of them, by partition and offset; where it is about once, those of committed transactions."""
    return asyncio.run(_read(broker, topic, source, "read_committed" if is_once else "read_uncommitted"))


async def _read(broker: Broker, topic: str, source: str, isolation: str) -> list[Result]:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
        isolation_level=isolation,
    )
    found: list[Result] = []
    async with consumer, AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None) as other:
        # Of the log: a broker ends a transaction some time after it has said so, and shows it only then.
        ends = await other.end_offsets(consumer.assignment())
        for tp, end in ends.items():
            while await consumer.position(tp) < end:  # past what isn't shown too
                for record in (await consumer.getmany(tp, timeout_ms=100)).get(tp, []):
                    partition, offset = map(int, record.value.split())
                    found.append(Result((source, partition, offset), tp.partition, record.offset))
    return found
