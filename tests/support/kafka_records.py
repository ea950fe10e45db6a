"""Records into a broker, what a group has committed, and what handlers wrote."""

import asyncio
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from broker import Broker
from replica import environment, lines, replica, wait_until


async def _produce(bootstrap: str, topic: str, count: int, partitions: int, size: int, *, keys: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for number in range(count):
            body = str(number).encode().ljust(size, b".")
            key = b"k%d" % (number // partitions % keys) if keys else None
            await producer.send(topic, body, key, partition=number % partitions)
        await producer.flush()


def produce(
    broker: Broker, topic: str, count: int, partitions: int = 8, size: int = 8, *, keys: int = 0
) -> None:
    """Records, evenly over the partitions; in each of so many keys, by their offsets in turn."""
    asyncio.run(_produce(broker.bootstrap, topic, count, partitions, size, keys=keys))


def truncate(broker: Broker, topic: str, partition: int, before: int) -> None:
    """Delete the records below an offset, as retention does."""

    async def delete() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            await admin.delete_records(
                {TopicPartition(topic, partition): RecordsToDelete(before_offset=before)}
            )
        finally:
            await admin.close()

    asyncio.run(delete())


class Feed:
    """Records that go on coming, evenly over 8 partitions, until the block ends."""

    sent = 0
    _is_over = False

    async def _send(self, bootstrap: str, topic: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            while not self._is_over:
                for _ in range(8):
                    await producer.send(topic, str(self.sent).encode(), partition=self.sent % 8)
                    self.sent += 1
                await asyncio.sleep(0.02)
            await producer.flush()

    @classmethod
    @contextmanager
    def into(cls, broker: Broker, topic: str) -> "Iterator[Feed]":
        """About 400 records a second."""
        feed = cls()
        thread = threading.Thread(target=lambda: asyncio.run(feed._send(broker.bootstrap, topic)))
        thread.start()
        try:
            yield feed
        finally:
            feed._is_over = True
            thread.join()


def send_while_replicas_come_and_go(
    broker: Broker, topic: str, folder: Path, count: Callable[[], int]
) -> int:
    """How many records were sent while a replica joined and others left. All are counted at its end."""
    with replica(folder, name="-a") as first:
        first.wait_ready()
        with Feed.into(broker, topic) as feed, replica(folder, name="-b") as second:
            second.logged(f"assigned: {topic}/")
            assert first.stop() == 0
            second.logged(f"assigned: {topic}/0-7 ")
            was = count()
            wait_until(lambda: count() > was, about=second)
            assert second.stop() == 0
        with replica(folder, name="-c") as third:
            wait_until(lambda: count() >= feed.sent, about=third)
            assert third.stop() == 0
    return feed.sent


def group_offsets(broker: Broker, group: str) -> dict[tuple[str, int], int]:
    """What the broker holds, read by a client of its own."""

    async def ask() -> dict[tuple[str, int], int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            offsets = await admin.list_consumer_group_offsets(group)
        finally:
            await admin.close()
        return {(tp.topic, tp.partition): entry.offset for tp, entry in offsets.items()}

    return asyncio.run(ask())


def handled(folder: Path) -> dict[tuple[str, int], list[int]]:
    """Offsets by (topic, partition), in the order in which handlers wrote them."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for line in lines(folder):
        topic, partition, offset, *_ = line.split()
        found[topic, int(partition)].append(int(offset))
    return found


def send_undecodable(broker: Broker, topic: str) -> None:
    """One record to partition 3, with a header whose name is no UTF-8."""
    script = """
import asyncio, sys
from aiokafka import AIOKafkaProducer
class Latin(str):
    def encode(self, *_):
        return b"caf\\xe9"
async def main(bootstrap, topic):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"x", partition=3, headers=[(Latin("cafe"), b"")])
asyncio.run(main(*sys.argv[1:]))
"""
    # Only the client's Python encoder asks the name how to encode itself.
    subprocess.run(
        [sys.executable, "-c", script, broker.bootstrap, topic],
        env=environment(AIOKAFKA_NO_EXTENSIONS="1"),
        check=True,
    )
