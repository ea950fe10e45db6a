"""Dead letters on their way back to the topics that they came from: which go where, with which time."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.runtime.errors import BrokerError, UsageError, one_line
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import connected, find_partitions, partitions_of
from headrace.runtime.kafka.dead_letter_headers import FIRST_TIMESTAMP, Headers, split_first_timestamp
from headrace.runtime.kafka.dead_letter_reader import DeadLetter
from headrace.runtime.kafka.producer import RecordCopy, discard, start_producer, write_copy
from headrace.runtime.kafka.topics import read_config

_RETENTION = "retention.ms"
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_DIFFERENCE = "message.timestamp.difference.max.ms"  # before Kafka 4, for each of those two that isn't set
_UNLIMITED = 2**63 - 1


def gives_its_own_time(config: Mapping[str, str]) -> bool:
    """Whether the topic stamps records itself: then no timestamp does harm, and none is kept."""
    return config.get("message.timestamp.type") == "LogAppendTime"


def why_lost(timestamp: int, now: int, config: Mapping[str, str]) -> str | None:
    """Return the setting by which the topic would refuse or delete a record with this timestamp, or None.

    Times are in ms since the epoch.
    """
    if gives_its_own_time(config):
        return None
    for name, away in ((_BEFORE, now - timestamp), (_AFTER, timestamp - now)):
        ruling = name if _limit(config, name) < _UNLIMITED else _DIFFERENCE
        if away > _limit(config, ruling):
            return f"would be refused: {ruling} is {_limit(config, ruling)}"
    retention = _number(config, _RETENTION, -1)
    if "delete" in config.get("cleanup.policy", "delete") and 0 <= retention < now - timestamp:
        return f"would be deleted: {_RETENTION} is {retention}"
    return None


def _limit(config: Mapping[str, str], name: str) -> int:
    return _number(config, name, _UNLIMITED)


def _number(config: Mapping[str, str], name: str, otherwise: int) -> int:
    """Return a setting as a number. Brokers may hide it, or have another idea of it."""
    try:
        return int(config.get(name, otherwise))
    except (ValueError, TypeError):
        return otherwise


# An idempotent producer never gives up by itself.
_CONFIRM_SECONDS = 30.0


class Replay:
    """Writes dead letters back, one at a time, and deletes nothing.

    To `sources` only: a record may say of itself what it likes. `to` is a topic that takes them all. They get
    the present time, and the first one in a header; in topics that `check` has seen they keep the first one.
    """

    def __init__(
        self, brokers: BrokerAccess, producer: Any, sources: Collection[str], to: str | None
    ) -> None:
        self._sources = sources
        self._brokers = brokers
        self._producer = producer
        self._to = to
        self._partitions: dict[str, list[int]] = {}
        self._configs: dict[str, Mapping[str, str]] = {}

    async def check(self, letter: DeadLetter) -> None:
        """Have its topic keep first timestamps. Raises UsageError where it would lose this letter by that.

        Raises BrokerError where the topic's settings can't be read.
        """
        topic, _ = await self._target(letter)
        _, first = _headers(letter)
        if topic is None or first is None:
            return
        # Read only where timestamps are kept: this user may not be allowed to ask.
        if topic not in self._configs:
            self._configs[topic] = await self._config(topic)
        if why := why_lost(first, round(time.time() * 1000), self._configs[topic]):
            raise UsageError(
                f"{letter.place} is of {_moment(first)}: in {topic} it {why}. "
                f"Leave --keep-timestamps out, or change that of the topic"
            )

    async def write(self, letter: DeadLetter) -> tuple[bool, str]:
        """Write one. Return whether the broker has confirmed it, and a line for people.

        The line says where it is now, or why it was left out.
        """
        topic, why = await self._target(letter)
        if topic is None:
            return False, f"{letter.place} skipped: {why}"
        partition = _partition(letter, self._partitions[topic])
        offset = await self._confirmed(letter, topic, partition, self._copy(letter, topic))
        return True, f"{letter.place} -> {topic}/{partition} offset {offset}"

    # ---- inside

    async def _target(self, letter: DeadLetter) -> tuple[str, None] | tuple[None, str]:
        """Return the topic that it goes to, or why it goes nowhere."""
        topic = self._to or (letter.provenance and letter.provenance.topic)
        if not topic:
            return None, "it doesn't say where it comes from; --to names a topic"
        shown = one_line(topic)
        if not self._to and topic not in self._sources:
            return None, f"it says it comes from {shown}; --source {shown} lets it go there"
        if topic not in self._partitions:
            self._partitions[topic] = await find_partitions(self._brokers, topic)
        if not self._partitions[topic]:
            return None, f"there is no topic {shown}; --to names another one"
        return topic, None

    async def _config(self, topic: str) -> Mapping[str, str]:
        from aiokafka.admin import AIOKafkaAdminClient
        from aiokafka.errors import TopicAuthorizationFailedError

        async with connected(AIOKafkaAdminClient, self._brokers) as admin:
            try:
                return await read_config(admin, "topic", topic)
            except TopicAuthorizationFailedError:
                raise BrokerError(
                    f"the broker at {self._brokers} does not let this user read the settings of {topic}, "
                    "which may delete what is old: leave --keep-timestamps out, or allow DescribeConfigs"
                ) from None

    def _copy(self, letter: DeadLetter, topic: str) -> RecordCopy:
        # A header whose name is no UTF-8 stays spelled out: clients can't write the bytes back.
        headers, first = _headers(letter)
        if topic in self._configs and not gives_its_own_time(self._configs[topic]):
            return RecordCopy(letter.record.key, letter.record.value, headers, first)
        if first is not None:
            headers = [*headers, (FIRST_TIMESTAMP, str(first).encode())]
        # With its first time, the topic's retention might delete it before anybody has read it.
        return RecordCopy(letter.record.key, letter.record.value, headers, None)

    async def _confirmed(self, letter: DeadLetter, topic: str, partition: int, copy: RecordCopy) -> int:
        from aiokafka.errors import KafkaError

        try:
            async with asyncio.timeout(_CONFIRM_SECONDS):
                return await write_copy(self._producer, topic, partition, copy)
        except TimeoutError:
            why = f"did not confirm within {_CONFIRM_SECONDS:g} s"
        except KafkaError as error:
            why = f"refused: {error}"
        raise BrokerError(f"{letter.place} to {topic}/{partition}: the broker at {self._brokers} {why}")


def _headers(letter: DeadLetter) -> tuple[Headers, int | None]:
    """Return the record's own headers, and the time at which it was written first; None where unknown."""
    headers, first = split_first_timestamp(letter.headers)
    if first is None:
        first = letter.provenance.timestamp if letter.provenance else letter.record.timestamp
    return headers, None if first is None or first < 0 else first


def _moment(timestamp: int) -> str:
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=timestamp)
    except OverflowError:  # producers may write any number
        return f"{timestamp} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _partition(letter: DeadLetter, partitions: list[int]) -> int:
    """Return the partition that it came from, which keeps order; by its key where there is none such."""
    from aiokafka.partitioner import DefaultPartitioner

    if letter.provenance is not None and letter.provenance.partition in partitions:
        return letter.provenance.partition
    return int(DefaultPartitioner()(letter.record.key, partitions, partitions))


@asynccontextmanager
async def replaying(brokers: BrokerAccess, sources: Collection[str], to: str | None) -> AsyncIterator[Replay]:
    """Open a replay to those of `sources` that the records came from, or to `to`. Raises BrokerError."""
    from aiokafka.errors import KafkaError

    if to is not None:
        # Raises where there is no such topic, before anything is written.
        await partitions_of(brokers, to)
    try:
        producer = await start_producer(brokers, "headrace-replay")
    except KafkaError as error:
        raise BrokerError(f"the broker at {brokers} lets nobody write: {error}") from error
    try:
        yield Replay(brokers, producer, sources, to)
    finally:
        await discard(producer)
