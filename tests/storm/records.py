"""`make storm`: records as no producer should write them.

p2  giant ones, up to what the topic takes, and some that only decompress to that: delivered, or dead letters
p3  no key, no value, no text, many headers, repeated ones, long ones: handlers see them as they are

usage: records.py [SCENARIO] [--count N] [--seed N]
"""

import asyncio
import random
import sys
import uuid
import zlib
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from broker import Broker
from kafka_records import group_offsets
from replica import lines, replica, wait_until, write_function
from scenario import Report, Scenario, main
from soak import usage

PARTITIONS = 4
MIB = 1 << 20
FETCH_MAX = 8 * MIB
Header = tuple[str, bytes | None]
FAITHFUL = """
    import zlib

    def handler(context, event):
        seen = (event.key, event.body, [tuple(header) for header in event.header_list])
        write(f"{event.shard_id} {event.offset} {zlib.crc32(repr(seen).encode())}")
"""
SIZES = """
    def handler(context, event):
        write(f"{event.shard_id} {event.offset} {len(event.body)}")
"""


def odd_bytes(longest: int) -> bytes | None:
    """None, empty, or anything."""
    return random.choice([None, b"", b"\xff\xfe\x00", random.randbytes(random.randint(1, longest))])


def odd_headers() -> list[Header]:
    """None, one, many of one name, or a long one."""
    kind = random.random()
    if kind < 0.3:
        return []
    if kind < 0.31:
        return [("long", random.randbytes(1 << 16)), *(("many", b"%d" % n) for n in range(1000))]
    names = ["", "a", "a", "\N{GREEK SMALL LETTER OMEGA}", "x-nuclio", "\x00"]
    return [(random.choice(names), odd_bytes(20)) for _ in range(random.randint(1, 6))]


def p3(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """10,000 of them in a run; each is compared by a checksum of all that its handler saw."""
    topic = broker.create_topic(PARTITIONS)
    function = write_function(folder / "f", FAITHFUL, broker.bootstrap, [topic])
    sent = asyncio.run(send_odd(broker, topic, 10_000))
    with replica(function) as running:
        wait_until(lambda: len(lines(function)) >= len(sent), 120, about=running)
        report.add("exit code", running.stop(), 0, 0, number)
        report.add("errors of Headrace's own", "Traceback" in running.log, 0, 0, number)
    seen = {(int(row[0]), int(row[1])): int(row[2]) for row in map(str.split, lines(function))}
    report.add("records", len(sent), 1, 1e9, number)
    report.add("lost", len(sent.keys() - seen.keys()), 0, 0, number)
    wrong = [place for place, checksum in sent.items() if seen.get(place) != checksum]
    report.add("not seen as they were sent", len(wrong), 0, 0, number)


async def send_odd(broker: Broker, topic: str, count: int) -> dict[tuple[int, int], int]:
    """By partition and offset, the checksum of what a handler has to see."""
    sent = {}
    async with AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap, linger_ms=20, max_request_size=4 * MIB
    ) as producer:
        waiting = []
        for number in range(count):
            key, value, headers = odd_bytes(50), odd_bytes(200), odd_headers()
            checksum = zlib.crc32(repr((key, value, headers)).encode())
            batch = producer.create_batch()  # `send` refuses records without key and value
            assert batch.append(key=key, value=value, timestamp=None, headers=headers) is not None
            waiting.append((checksum, await producer.send_batch(batch, topic, partition=number % PARTITIONS)))
        for checksum, answer in waiting:
            metadata = await answer
            sent[metadata.partition, metadata.offset] = checksum
    return sent


def p2(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Larger than fetchMax is a failure by policy; the dead-letter topic takes all of it."""
    topic, letters = (asyncio.run(wide_topic(broker)) for _ in range(2))
    function = write_function(
        folder / "f",
        SIZES,
        broker.bootstrap,
        [topic],
        fetchMax=FETCH_MAX,
        onFailure={"maxAttempts": 1, "then": "deadLetter", "deadLetterTopic": letters},
    )
    sizes = [10, FETCH_MAX - 1, FETCH_MAX, FETCH_MAX + 1, 10 * MIB, MIB, 0, *random.choices([10, MIB], k=20)]
    random.shuffle(sizes)
    asyncio.run(send_sizes(broker, topic, sizes))
    with replica(function) as running:
        running.wait_ready()
        ends = {(topic, 0): len(sizes)}
        wait_until(lambda: group_offsets(broker, f"group-{topic}") == ends, 120, about=running)
        report.add("memory, MiB", usage(running.process.pid).resident_mib, 0, 500, number)
        report.add("exit code", running.stop(), 0, 0, number)
    delivered = [int(row.split()[2]) for row in lines(function)]
    wanted = [size for size in sizes if size <= FETCH_MAX]
    report.add("records", len(sizes), 1, 1e9, number)
    report.add("delivered otherwise than in order, once", delivered != wanted, 0, 0, number)
    found = asyncio.run(count_records(broker, letters))
    report.add("dead letters", found, len(sizes) - len(wanted), len(sizes) - len(wanted), number)


async def wide_topic(broker: Broker) -> str:
    """It takes records of up to 12 MiB."""
    name = f"wide-{uuid.uuid4().hex[:12]}"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        config = {"max.message.bytes": str(12 * MIB)}
        await admin.create_topics([NewTopic(name, 1, 1, topic_configs=config)])
    finally:
        await admin.close()
    return name


async def send_sizes(broker: Broker, topic: str, sizes: list[int]) -> None:
    """Some compressed to next to nothing."""
    for size in sizes:
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            max_request_size=12 * MIB,
            compression_type=random.choice([None, "gzip"]),
        ) as producer:
            await producer.send_and_wait(topic, bytes(size), partition=0)


async def count_records(broker: Broker, topic: str) -> int:
    """Of a topic with one partition."""
    tp = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        ends = await consumer.end_offsets([tp])
    return int(ends[tp])


SCENARIOS: dict[str, Scenario] = {"p2": p2, "p3": p3}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
