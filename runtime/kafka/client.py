"""Topics listed, records sent and read on any broker, as the command line needs it."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.runtime.errors import BrokerError, UsageError, one_line
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.connecting import connect_errors, start_client
from headrace.runtime.kafka.names import TOPIC_NAME_PATTERN
from headrace.runtime.kafka.topics import create_topics, end_offsets, know_topics, refuse_errors

_CONNECT_SECONDS = 5.0  # for each address: as long as a connection waits for a first answer
_MORE_SECONDS = 1.0
_READ_MS = 10_000  # for a record that is there; a gap behind the last one gives none

logger = logging.getLogger(__name__)


class RecordToSend(NamedTuple):
    """A record to be sent. Without a partition its key chooses one, or chance."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


async def list_topics(
    brokers: BrokerAccess, create: dict[str, int], delete: list[str]
) -> list[dict[str, Any]]:
    """Delete, then create, and return each topic with its partitions and their end offsets, by name."""
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient

    async with connected(AIOKafkaAdminClient, brokers) as admin:
        if delete:
            refuse_errors((await admin.delete_topics(delete)).topic_error_codes, set())
        if create:
            await create_topics(brokers, create)
        # What was deleted just now may still be listed for a moment.
        found = {
            topic["topic"]: sorted(part["partition"] for part in topic["partitions"])
            for topic in await admin.describe_topics()
            if not topic["is_internal"] and topic["topic"] not in set(delete) - set(create)
        }
    async with connected(AIOKafkaConsumer, brokers) as consumer:
        await know_topics(consumer, found)
        places = [TopicPartition(name, number) for name, parts in found.items() for number in parts]
        ends = await end_offsets(consumer, places)
    of_each = {name: [ends.get(TopicPartition(name, it)) for it in parts] for name, parts in found.items()}
    # A topic that is deleted meanwhile has partitions without an end.
    return [
        {"topic": name, "partitions": len(of_one), "end_offsets": of_one}
        for name, of_one in sorted(of_each.items())
        if None not in of_one
    ]


async def produce(
    brokers: BrokerAccess,
    topic: str,
    partition: int | None,
    batches: AsyncIterator[list[RecordToSend]],
    total: int | None,
) -> int:
    """Send all records.

    Return how many the broker has acknowledged: all of them, or BrokerError is raised.
    """
    from aiokafka import AIOKafkaProducer

    partitions = await partitions_of(brokers, topic)
    _check_partition(topic, partition, partitions)
    sent = 0
    async with connected(AIOKafkaProducer, brokers) as producer:
        with _progress() as bars:
            bar = bars.add_task(f"to {topic}", total=total)
            async for batch in batches:
                acknowledged = []
                for it in batch:
                    to = it.partition if partition is None else partition
                    _check_partition(topic, to, partitions)
                    place = {"partition": to, "timestamp_ms": it.timestamp_ms, "headers": it.headers or None}
                    acknowledged.append(await producer.send(topic, it.value, key=it.key, **place))
                await asyncio.gather(*acknowledged)
                # After the acknowledgements: the bar shows what the broker has.
                sent += len(batch)
                bars.update(bar, completed=sent)
    return sent


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _check_partition(topic: str, partition: int | None, partitions: Sequence[int]) -> None:
    if partition is not None and partition not in partitions:
        raise UsageError(f"topic {topic} has partitions 0 to {max(partitions)}: not {partition}")


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """A position to read from: `start` is "earliest", "latest", or an offset of one partition.

    Without a partition all of the topic's are read.
    """

    topic: str
    start: str | int
    partition: int | None = None


async def consume(
    brokers: BrokerAccess, place: ReadPosition, count: int | None, show: Callable[[Any], None]
) -> None:
    """Show each record as it comes, until `count` were shown."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    partitions = await partitions_of(brokers, place.topic)
    _check_partition(place.topic, place.partition, partitions)
    numbers = partitions if place.partition is None else [place.partition]
    places = [TopicPartition(place.topic, number) for number in numbers]
    async with connected(AIOKafkaConsumer, brokers) as consumer:
        consumer.assign(places)
        if isinstance(place.start, int):
            await _seek(consumer, places[0], place.start)
        else:
            seek = consumer.seek_to_beginning if place.start == "earliest" else consumer.seek_to_end
            await seek(*places)
        left = count
        while left is None or left > 0:
            fetched = await consumer.getmany(timeout_ms=1000, max_records=left)
            records = [record for of_partition in fetched.values() for record in of_partition]
            for record in records:
                show(record)
            if left is not None:
                left -= len(records)


async def read_record(brokers: BrokerAccess, topic: str, partition: int, offset: int) -> Any:
    """Return the record at an offset. Raises UsageError where there is none."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    _check_partition(topic, partition, await partitions_of(brokers, topic))
    place = TopicPartition(topic, partition)
    async with connected(AIOKafkaConsumer, brokers) as consumer:
        consumer.assign([place])
        end = await _seek(consumer, place, offset)
        # At the end nothing comes, and the fetch would take all of its time.
        found = await consumer.getmany(timeout_ms=_READ_MS, max_records=1) if offset < end else {}
    records = [record for of_partition in found.values() for record in of_partition]
    # A gap (compaction, transactions) gives the next record instead.
    if not records or records[0].offset != offset:
        raise UsageError(f"{topic}/{partition} has no record at offset {offset}: its last is before {end}")
    return records[0]


async def _seek(consumer: Any, place: Any, offset: int) -> int:
    """Seek, and return the partition's end. Raises UsageError for an offset that it hasn't.

    aiokafka would go elsewhere by itself.
    """
    first = (await consumer.beginning_offsets([place]))[place]
    end = int((await consumer.end_offsets([place]))[place])
    if not first <= offset <= end:
        what = f"offsets {first} to {end - 1}" if first < end else f"no record yet, and begins at {first}"
        raise UsageError(f"{place.topic}/{place.partition} has {what}: not {offset}")
    consumer.seek(place, offset)
    return end


async def partitions_of(brokers: BrokerAccess, topic: str) -> list[int]:
    """Return the topic's partitions. Raises BrokerError where there is no such topic:

    none is made by accident.
    """
    found = await find_partitions(brokers, topic)
    if not found:
        raise BrokerError(
            f"there is no topic {one_line(topic)} at {brokers}: "
            f"create it with `headrace kafka topics --create {one_line(topic)}:8`"
        )
    return found


async def find_partitions(brokers: BrokerAccess, topic: str) -> list[int]:
    """Return the topic's partitions, or [] where there is none, as for a name that no topic can have."""
    from aiokafka.admin import AIOKafkaAdminClient

    if re.fullmatch(TOPIC_NAME_PATTERN, topic) is None:
        return []
    async with connected(AIOKafkaAdminClient, brokers) as admin:
        (found,) = await admin.describe_topics([topic])
    return [] if found["error_code"] else sorted(part["partition"] for part in found["partitions"])


def quiet_client() -> None:
    """Keep aiokafka's log lines about outages out of ours: our own error says it once, in one line."""
    client_logger = logging.getLogger("aiokafka")
    client_logger.propagate = False
    client_logger.addHandler(logging.NullHandler())


@asynccontextmanager
async def connected(kind: Callable[..., Any], brokers: BrokerAccess, **options: Any) -> AsyncIterator[Any]:
    """Start one of aiokafka's clients on entry, and close it on exit. Its errors become ours."""
    from aiokafka.errors import KafkaError

    from headrace.runtime.kafka.refusals import not_connected, strangers

    client = kind(**brokers.client_options(), **options)
    # The admin client has `close`, the others have `stop`.
    close = getattr(client, "stop", None) or client.close
    try:
        with connect_errors() as heard:
            async with asyncio.timeout(_CONNECT_SECONDS * (1 + brokers.addresses.count(",")) + _MORE_SECONDS):
                await start_client(client)
    except (KafkaError, TimeoutError, OSError, ValueError) as error:
        await close()
        raise BrokerError(not_connected(heard, brokers, error)) from error
    for line in strangers(heard, brokers):
        logger.warning("%s; another address answers", line)
    try:
        await asyncio.sleep(0)  # its tasks begin: aiokafka's close would raise what cancels one before that
        yield client
    except KafkaError as error:
        raise BrokerError(f"the broker at {brokers} refused: {error}") from error
    except UnicodeEncodeError as error:
        raise UsageError(f"{one_line(error.object)} is no name at a broker; expected UTF-8") from error
    finally:
        await close()
