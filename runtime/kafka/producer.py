"""Producers for records that have to arrive as they are: dead letters, replays, transactions."""

import asyncio
from dataclasses import dataclass
from typing import Any

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.connecting import start_client
from headrace.runtime.kafka.dead_letter_headers import Headers
from headrace.runtime.tasks import run_to_end

_REQUEST_TIMEOUT_SECONDS = 10.0
_DISCARD_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RecordCopy:
    """A record to be written: any bytes or none, its timestamp in ms since the epoch; None takes now."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None


async def start_producer(brokers: BrokerAccess, client_id: str, transactional_id: str | None = None) -> Any:
    """Start an aiokafka producer that waits for all replicas in sync. Raises KafkaError.

    With a transactional id, nobody who had it can write or end a transaction any more, and the last one of
    theirs has ended.

    To be discarded once a write has failed: the broker misses the sequence number that the failed one took,
    and refuses what follows.
    """
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        **brokers.client_options(),
        client_id=client_id,
        acks="all",
        enable_idempotence=True,
        transactional_id=transactional_id,
        request_timeout_ms=round(_REQUEST_TIMEOUT_SECONDS * 1000),
    )
    try:
        await start_client(producer)
    except BaseException:
        await discard(producer)
        raise
    return producer


def track(producer: Any, topic: str) -> None:
    """Have the topic stay known while messages for it are queued. To be called before each use.

    Until a producer has a topic aiokafka asks for all of them, and forgets what it has learnt so once it asks
    for one. What is queued for another one then waits until it expires, amid thousands of requests.
    """
    producer.client.add_topic(topic)


async def write_copy(producer: Any, topic: str, partition: int, copy: RecordCopy) -> int:
    """Write a record, and return the offset that the broker has confirmed. Raises KafkaError.

    Retries until cancelled what may help. The record is a batch of our own: the client's `send` refuses
    records without key and value, and large ones.
    """
    # `send` mixes records into one batch, too: the size of one would fail its neighbours.
    batch = producer.create_batch()
    batch.append(timestamp=copy.timestamp, key=copy.key, value=copy.value, headers=copy.headers)
    track(producer, topic)
    confirmed = await producer.send_batch(batch, topic, partition=partition)
    written = await confirmed
    return int(written.offset)


async def discard(producer: Any) -> None:
    """Close it within seconds, even where that is cancelled. Nobody may be waiting for a write.

    What is unconfirmed is dropped: aiokafka's `stop` would wait for it, and an idempotent producer never
    gives up.
    """
    await run_to_end(_close(producer))


async def _close(producer: Any) -> None:
    producer._closed = True  # noqa: SLF001  # there is no public way
    sender = producer._sender.sender_task  # noqa: SLF001
    for _ in range(2):  # the first makes it wait for its requests, the second for nothing
        if sender is not None and not sender.done():
            sender.cancel()
            await asyncio.wait([sender], timeout=_DISCARD_SECONDS / 2)
    await producer.client.close()
