"""`isolationLevel: read_committed`: what was committed comes, once, in order, alone. Real broker."""

import asyncio
import random
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from replica import lines, replica, wait_until, write_function

WRITES = """
    def handler(context, event):
        write(f"{event.shard_id} {event.body.decode()}")
"""


async def _transactions(producer: AIOKafkaProducer, topic: str, number: int, fates: random.Random) -> int:
    """So many, each of some records to both partitions; how many were committed. Values count those up."""
    committed = 0
    for at in range(number):
        is_committed = fates.random() < 0.6
        await producer.begin_transaction()
        for _ in range(fates.randint(1, 4)):
            value = str(committed) if is_committed else f"aborted {at}"
            for partition in range(2):
                await producer.send_and_wait(topic, value.encode(), partition=partition)
            committed += is_committed
        await (producer.commit_transaction() if is_committed else producer.abort_transaction())
    return committed


@pytest.mark.usefixtures("either_path")
def test_what_was_aborted_is_not_delivered_and_all_else_is(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], isolationLevel="read_committed", partitions=[0, 1]
    )

    async def produce() -> int:
        fates = random.Random(7)
        first = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
        other = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"{topic}-other")
        async with first, other:
            committed = await _transactions(first, topic, 30, fates)
            # Batches of one producer that is committed lie among those of another one that isn't.
            await other.begin_transaction()
            for at in range(10):
                await other.send_and_wait(topic, f"aborted late {at}".encode(), partition=at % 2)
                async with first.transaction():
                    for partition in range(2):
                        await first.send_and_wait(topic, str(committed).encode(), partition=partition)
                committed += 1
            await other.abort_transaction()
        return committed

    committed = asyncio.run(produce())
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 2 * committed, about=running)
        assert running.stop() == 0
    for partition in range(2):
        of_one = [line.split()[1:] for line in lines(folder) if line.startswith(f"{partition} ")]
        assert of_one == [[str(number)] for number in range(committed)]


@pytest.mark.full
def test_records_wait_for_the_end_of_their_transaction_and_those_behind_it_too(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], isolationLevel="read_committed", partitions=[0]
    )

    async def produce(seen: list[list[str]]) -> None:
        transactional = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
        plain = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        async with transactional, plain:
            await plain.send_and_wait(topic, b"before", partition=0)
            await transactional.begin_transaction()
            await transactional.send_and_wait(topic, b"within", partition=0)
            await plain.send_and_wait(topic, b"behind", partition=0)
            await asyncio.to_thread(wait_until, lambda: lines(folder), about=running)
            seen.append(lines(folder))
            await transactional.commit_transaction()

    seen: list[list[str]] = []
    with replica(folder) as running:
        running.wait_ready()
        asyncio.run(produce(seen))
        wait_until(lambda: len(lines(folder)) == 3, about=running)
        assert running.stop() == 0
    assert seen == [["0 before"]]
    assert lines(folder) == ["0 before", "0 within", "0 behind"]
