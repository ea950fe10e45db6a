"""Records that fail, and what a person sees and does about them."""

import json
import subprocess
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import ConsumerRecord
from broker import Broker
from command import run
from replica import Replica, lines

HEADERS = [("trace", b"\x00\xff"), ("twice", b"1"), ("twice", b"2")]


async def send(broker: Broker, topic: str, bodies: list[bytes], number: int) -> list[int]:
    """Records with odd bytes in them; their timestamps."""
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        sent = [
            await producer.send_and_wait(topic, body, key=b"\xfe\x00", partition=number, headers=HEADERS)
            for body in bodies
        ]
    return [metadata.timestamp for metadata in sent]


async def read(broker: Broker, topic: str, count: int) -> list[ConsumerRecord]:
    """The first records of a topic. There must not be more."""
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        found = [await consumer.getone() for _ in range(count)]
        ends = await consumer.end_offsets(consumer.assignment())
    assert sum(ends.values()) == count
    return found


def attempts(folder: Path, shard: int, offset: int) -> list[int]:
    """The attempt numbers that handlers saw of one record."""
    rows = [line.split() for line in lines(folder)]
    return [int(row[3]) for row in rows if row[1:3] == [str(shard), str(offset)]]


def partition(running: Replica, number: int) -> dict[str, Any]:
    """Its row in the status of whichever replica has it; empty where none has."""
    rows = [row for trigger in running.triggers() for row in trigger["partitions"]]
    found: dict[str, Any] = next((row for row in rows if row["partition"] == number), {})
    return found


def problems(running: Replica) -> list[str]:
    found: list[str] = json.loads(running.get("/ready")[1])["problems"]
    return found


def halted_metric(running: Replica, number: int) -> float | None:
    rows = running.get("/metrics")[1].splitlines()
    values = [
        float(row.split()[-1])
        for row in rows
        if row.startswith("headrace_partition_halted{") and f'partition="{number}"' in row
    ]
    return max(values, default=None)


def act(running: Replica, action: str, place: str) -> "subprocess.CompletedProcess[str]":
    """`headrace partition retry|skip`."""
    return run("partition", action, place, "--admin", running.url)
