"""`make storm`: explicit acks in a random order, a kill -9 of their replica, and what a new one delivers.

restart  1,000 records, a kill at a random moment: exactly what the broker's last commit has not comes back
hole     acks around an open record: the committed offset stays in front of it; with cumulative it doesn't

usage: acks.py [restart|hole] [--count N] [--seed N]
"""

import asyncio
import copy
import random
import sys
import time
from pathlib import Path

import yaml
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from broker import Broker
from kafka_records import produce
from processes import is_running
from replica import lines, replica, set_trigger, wait_until, write_function
from scenario import Report, main

from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import decode_text
from headrace.triggers.kafka.client.commits import fetch_commits

RECORDS = 1000
PARTITIONS = 5
ACKS_IN_ANY_ORDER = """
    import nuclio, random
    acking = set()

    def init_context(context):
        context.user_data.random = random.Random(f"{(FOLDER / 'seed').read_text()} {context.worker_id}")

    async def ack(context, event, seconds):
        await asyncio.sleep(seconds)
        if await context.platform.explicit_ack(nuclio.QualifiedOffset.from_event(event)):
            write(f"{event.shard_id} {event.offset}", "acked")

    async def handler(context, event):
        write(f"{event.shard_id} {event.offset} {os.getppid()}")
        seconds = context.user_data.random.uniform(0, 0.5 if exists("soon") else 3)
        task = asyncio.create_task(ack(context, event, seconds))
        acking.add(task)
        task.add_done_callback(acking.discard)
"""
OPEN = 5
ACKS_AROUND_A_HOLE = f"""
    import nuclio, random

    async def handler(context, event):
        context.user_data.held.append(nuclio.QualifiedOffset.from_event(event))
        write(event.offset, event.trigger.name)
        if event.offset == 10:
            await ack(context, context.user_data.held.pop())
        if event.offset == 19 and event.trigger.name != "cumulative":
            context.user_data.acking = asyncio.create_task(ack_others(context))

    async def ack_others(context):
        held = context.user_data.held
        the_open_one = held.pop({OPEN})
        random.shuffle(held)
        for qualified_offset in held:
            await ack(context, qualified_offset)
            await asyncio.sleep(0.05)
        while not exists("go"):
            await asyncio.sleep(0.01)
        await ack(context, the_open_one)

    async def ack(context, qualified_offset):
        assert await context.platform.explicit_ack(qualified_offset)

    def init_context(context):
        context.user_data.held = []
"""
Records = set[tuple[int, int]]


def commits(broker: Broker, group: str, topic: str, partitions: int) -> dict[int, Checkpoint]:
    """What the broker holds, metadata included, read by a client of its own."""

    async def ask() -> dict[int, Checkpoint]:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            every = [TopicPartition(topic, number) for number in range(partitions)]
            found = await fetch_commits(admin, group, every)
        finally:
            await admin.close()
        told = {tp.partition: decode_text(it.offset, it.metadata) for tp, it in found.items()}
        return {number: metadata.checkpoint for number, metadata in told.items() if metadata is not None}

    return asyncio.run(ask())


def wait_until_empty(broker: Broker, group: str) -> None:
    """Until the group has lost its last member: no commit of an old one can follow."""

    async def ask() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            async with asyncio.timeout(120):
                while (await admin.describe_consumer_groups([group]))[0].groups[0][2] != "Empty":
                    await asyncio.sleep(0.02)
        finally:
            await admin.close()

    asyncio.run(ask())


def in_commit(checkpoints: dict[int, Checkpoint], count: int) -> Records:
    """Of `count` records per partition, those that a new owner need not deliver."""
    return {
        (number, offset)
        for number, checkpoint in checkpoints.items()
        for offset in range(count)
        if offset < checkpoint.offset or any(first <= offset < end for first, end in checkpoint.acked)
    }


def read_records(function: Path, name: str, pid: int | None = None) -> list[tuple[int, int]]:
    """(partition, offset) of each line; those of one processor only, where its pid is given."""
    rows = [line.split() for line in lines(function, name)]
    return [(int(row[0]), int(row[1])) for row in rows if pid is None or row[2] == str(pid)]


def restart(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """No client but our own reads the commit between the kill and the next start."""
    topic = broker.create_topic(PARTITIONS)
    group = f"group-{topic}"
    function = write_function(
        folder / "f",
        ACKS_IN_ANY_ORDER,
        broker.bootstrap,
        [topic],
        workerAllocationMode="static",
        sessionTimeout="2s",
    )
    set_trigger(function, explicitAckMode="explicitOnly")
    (function / "seed").write_text(str(random.random()))
    moment = random.randrange(RECORDS)
    produce(broker, topic, RECORDS, PARTITIONS)
    per_partition = RECORDS // PARTITIONS
    every = {(partition, offset) for partition in range(PARTITIONS) for offset in range(per_partition)}
    with replica(function, name="-a") as first:
        wait_until(lambda: len(lines(function, "acked")) >= moment, about=first)
        pids = first.worker_pids()
        first.kill()
        wait_until(lambda: not any(map(is_running, pids)))
    acked = set(read_records(function, "acked"))
    before = read_records(function, "log")
    wait_until_empty(broker, group)
    settled = in_commit(commits(broker, group, topic, PARTITIONS), per_partition)
    (function / "soon").touch()
    with replica(function, name="-b") as second:
        done = dict.fromkeys(range(PARTITIONS), Checkpoint(per_partition))
        wait_until(lambda: commits(broker, group, topic, PARTITIONS) == done, about=second)
        assert second.stop() == 0
        after = read_records(function, "log", second.process.pid)
    report.add_faults("kills", 1, number)
    report.add("acked at the kill", len(acked), 0, RECORDS, number)
    report.add("of these in the broker's last commit", len(acked & settled), 0, RECORDS, number)
    report.add("delivered twice before the kill", len(before) - len(set(before)), 0, 0, number)
    # An ack is written down after it was sent: at the kill, each worker may have been between the two.
    report.add("in the commit, and nobody has said that it was acked", len(settled - acked), 0, 2, number)
    report.add("unacked, and lost", len(every - acked - settled - set(after)), 0, 0, number)
    report.add(
        "acked, not in the commit, and not delivered again", len(every - settled - set(after)), 0, 0, number
    )
    report.add("acked in the commit, and delivered again", len(settled & set(after)), 0, 0, number)
    report.add("delivered twice after the restart", len(after) - len(set(after)), 0, 0, number)


def hole(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Two triggers of one function: what `explicitAckSemantics` makes of the same acks."""
    topics = {name: broker.create_topic(1) for name in ("records", "cumulative")}
    function = write_function(
        folder / "f",
        ACKS_AROUND_A_HOLE,
        broker.bootstrap,
        [topics["records"]],
        1,
        workerAllocationMode="static",
    )
    set_trigger(function, explicitAckMode="explicitOnly")
    add_cumulative_trigger(function, topics["cumulative"])
    for topic in topics.values():
        produce(broker, topic, 20, 1)
    found: dict[str, list[Checkpoint]] = {name: [Checkpoint(0)] for name in topics}

    def look() -> Checkpoint:
        for name, topic in topics.items():
            found[name].append(commits(broker, f"group-{topic}", topic, 1).get(0, Checkpoint(0)))
        return found["records"][-1]

    with replica(function) as running:
        running.wait_ready()
        around = Checkpoint(OPEN, acked=((OPEN + 1, 20),))  # the acks come in any order: all of them
        wait_until(lambda: look() == around and found["cumulative"][-1].offset >= 11, about=running)
        look()
        highest = max(checkpoint.offset for checkpoint in found["records"])
        report.add(f"highest commit while {OPEN} is open", highest, OPEN, OPEN, number)
        cumulative = {checkpoint.offset for checkpoint in found["cumulative"]}
        report.add("highest commit with cumulative, after ack(10)", max(cumulative), 11, 11, number)
        (function / "go").touch()
        began = time.monotonic()
        wait_until(lambda: look().offset == 20, about=running)
        report.add("last ack to its commit, s", time.monotonic() - began, 0, 3, number)
        assert running.stop() == 0
    for checkpoints in found.values():
        offsets = [checkpoint.offset for checkpoint in checkpoints]
        report.add("commits that moved back", offsets != sorted(offsets), 0, 0, number)


def add_cumulative_trigger(function: Path, topic: str) -> None:
    """A second one like the first."""
    path = function / "function.yaml"
    document = yaml.safe_load(path.read_text())
    triggers = document["spec"]["triggers"]
    triggers["cumulative"] = copy.deepcopy(triggers["records"])
    triggers["cumulative"]["attributes"] |= {
        "topics": [topic],
        "consumerGroup": f"group-{topic}",
        "explicitAckSemantics": "cumulative",
    }
    path.write_text(yaml.safe_dump(document))


if __name__ == "__main__":
    sys.exit(asyncio.run(main({"restart": restart, "hole": hole}, __doc__ or "")))
