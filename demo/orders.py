"""Orders that the demo produces, and the offsets that the broker gave them."""

import asyncio
import json
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from aiokafka import AIOKafkaProducer

TOPIC = "orders"
PARTITIONS = 8
PRODUCTS = ("apples", "bread", "coffee", "dates", "eggs")
_TICK_SECONDS = 0.05
_MAX_BATCH_BYTES = 900_000

RecordId = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order. `amount` is a multiple of 0.25, so that sums are exact whatever their order."""

    id: int
    product: str
    amount: float
    at: datetime

    def to_json(self) -> bytes:
        """Return the record's value."""
        fields = {"id": self.id, "product": self.product, "amount": self.amount, "at": self.at.isoformat()}
        return json.dumps(fields).encode()


class Orders:
    """`count` orders, spread evenly over `seconds` and partitions. `acked` are those that Kafka has.

    No more are produced than `allow` permits, so that events in between may take as long as they like.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self.count = count
        self.acked: dict[RecordId, Order] = {}
        self._allowed = 0
        self._seconds = seconds
        self._grown = asyncio.Condition()

    async def allow(self, share: float) -> None:
        """Permit that share of all orders to be produced."""
        async with self._grown:
            self._allowed = round(share * self.count)
            self._grown.notify_all()

    async def until_acked(self, share: float) -> None:
        """Wait until that share of all orders is in Kafka."""
        async with self._grown:
            await self._grown.wait_for(lambda: len(self.acked) >= share * self.count)

    async def produce(self, bootstrap: str) -> None:
        """Produce all orders."""
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, max_batch_size=_MAX_BATCH_BYTES
        )
        sent = 0
        async with producer:
            while sent < self.count:
                end = await self._until_allowed_beyond(sent)
                await self._produce(producer, sent, end)
                sent = end

    async def _until_allowed_beyond(self, sent: int) -> int:
        async with self._grown:
            await self._grown.wait_for(lambda: self._allowed > sent)
            return self._allowed

    async def _produce(self, producer: AIOKafkaProducer, first: int, end: int) -> None:
        started, sent = time.monotonic(), first
        while sent < end:
            await asyncio.sleep(_TICK_SECONDS)
            due = min(end, first + int(self.count * (time.monotonic() - started) / self._seconds))
            orders = [_new_order(number) for number in range(sent, due)]
            parts = [orders[partition::PARTITIONS] for partition in range(PARTITIONS)]
            await asyncio.gather(*(self._send(producer, *part) for part in enumerate(parts)))
            sent = due
            async with self._grown:
                self._grown.notify_all()

    async def _send(self, producer: AIOKafkaProducer, partition: int, orders: list[Order]) -> None:
        if not orders:
            return
        batch = producer.create_batch()
        for order in orders:
            assert batch.append(key=None, value=order.to_json(), timestamp=None), "it is small enough"
        acked = await (await producer.send_batch(batch, TOPIC, partition=partition))
        self.acked |= {(partition, acked.offset + place): order for place, order in enumerate(orders)}


def _new_order(number: int) -> Order:
    # Random orders for a demo need no cryptography.
    amount = random.randrange(4, 200) / 4  # noqa: S311
    return Order(number, random.choice(PRODUCTS), amount, datetime.now(UTC))  # noqa: S311
