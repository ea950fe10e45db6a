"""`make storm`: logs that are not a plain row of records, or that change while they are read.

p4  transactions, half of them aborted, and a kill -9: control records leave no lag and no hole
p5  the log is cut above the commit: its replica goes on with the earliest record, and says so
r3  partitions are added while records are handled, and another topic of the function is deleted

usage: logs.py [SCENARIO] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import random
import sys
import uuid
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from broker import Broker
from faults import records_for
from history import Partition, RecordId
from judge import Allowed
from kafka_records import group_offsets, handled, produce
from load import WORKERS, Load, pause
from replica import lines, replica, wait_until, write_function
from scenario import Report, Scenario, main

PARTITIONS = 4
WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset}")
        time.sleep(0.002)
"""


class Transactions(Load):
    """Records come in transactions, about half of which are aborted. Both kinds are delivered by default."""

    sent: set[RecordId]
    log_ends: dict[Partition, int]

    def produce(self) -> None:
        """Control records lie between them."""
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        self.sent = set()
        bootstrap = self.broker.bootstrap
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=str(uuid.uuid4())
        ) as producer:
            while len(self.sent) < self.records:
                await self._transact(producer, min(random.randint(1, 50), self.records - len(self.sent)))
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            ends = await consumer.end_offsets([TopicPartition(self.topic, n) for n in range(self.partitions)])
        self.log_ends = {(tp.topic, tp.partition): end for tp, end in ends.items()}

    async def _transact(self, producer: AIOKafkaProducer, count: int) -> None:
        await producer.begin_transaction()
        waiting = [await producer.send(self.topic, b"x", partition=n % self.partitions) for n in range(count)]
        self.sent |= {(it.topic, it.partition, it.offset) for it in await asyncio.gather(*waiting)}
        end = random.choice([producer.abort_transaction, producer.commit_transaction])
        await end()

    @property
    def produced(self) -> set[RecordId]:
        """Where the broker has put them."""
        return self.sent

    @property
    def ends(self) -> dict[Partition, int]:
        """Behind the last control record."""
        return self.log_ends


def p4(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """The commit reaches the end of the log, which no record does."""
    with Transactions(broker, folder, records_for(report.seconds, 2), partitions=PARTITIONS) as load:
        load.begin(load.function, load.function)
        pause(0, 1)
        fault = load.kill(random.choice(load.replicas))
        load.start()
        load.finish()
        report.add_faults("kills", 1, number)
        load.check(report, number, Allowed(load.may_repeat([fault]), cut_off=WORKERS))


def p5(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """While it is away, and again while it runs."""
    topic, count = broker.create_topic(1), 300
    function = write_function(folder / "f", WRITES, broker.bootstrap, [topic])
    produce(broker, topic, count, 1)
    with replica(function, name="-a") as first:
        wait_until(lambda: len(lines(function)) >= random.randint(50, 150), about=first)
        first.kill()
    committed = group_offsets(broker, f"group-{topic}").get((topic, 0), 0)
    cut = random.randint(max(committed + 1, 200), 280)
    asyncio.run(delete_below(broker, topic, cut))
    with replica(function, name="-b") as second:
        wait_until(lambda: group_offsets(broker, f"group-{topic}") == {(topic, 0): count}, about=second)
        report.add("loud lines", len(second.log_times("out of range")), 1, 1, number)
        report.add("exit code", second.stop(), 0, 0, number)
    missing = set(range(cut, count)) - set(handled(function)[topic, 0])
    report.add_faults("logs cut above the commit", 1, number)
    report.add("lost", len(missing), 0, 0, number)


async def delete_below(broker: Broker, topic: str, offset: int) -> None:
    """As retention does."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=offset)})
    finally:
        await admin.close()


def r3(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Nobody restarts anything."""
    topic, doomed = broker.create_topic(PARTITIONS), broker.create_topic(1)
    function = write_function(folder / "f", WRITES, broker.bootstrap, [topic, doomed])

    def of(name: str) -> list[list[int]]:
        return [offsets for (found, _), offsets in handled(function).items() if found == name]

    produce(broker, topic, 400, PARTITIONS)
    produce(broker, doomed, 10, 1)
    with replica(function) as running:
        wait_until(lambda: len(lines(function)) >= random.randint(50, 300), about=running)
        asyncio.run(widen_and_delete(broker, topic, doomed))
        produce(broker, topic, 400, 2 * PARTITIONS)
        wanted = 400 + 400
        wait_until(
            lambda: sum(len(set(o)) for (t, _), o in handled(function).items() if t == topic) == wanted, 330
        )
        report.add("exit code", running.stop(), 0, 0, number)
        report.add("errors of Headrace's own", "Traceback" in running.log, 0, 0, number)
    repeats = sum(len(found) - len(set(found)) for found in of(topic))
    report.add_faults("topics widened", 1, number)
    report.add("handled twice", repeats, 0, 0, number)


async def widen_and_delete(broker: Broker, topic: str, doomed: str) -> None:
    """Twice as many partitions of the one, none of the other."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        await admin.create_partitions({topic: NewPartitions(2 * PARTITIONS)})
        await admin.delete_topics([doomed])
    finally:
        await admin.close()


SCENARIOS: dict[str, Scenario] = {"p4": p4, "p5": p5, "r3": r3}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
