"""The one place that commits offsets."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    InvalidCommitOffsetSizeError,
    KafkaError,
    OffsetMetadataTooLargeError,
)

from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.triggers.kafka.client.internals import generation
from headrace.triggers.kafka.metadata import MAX_METADATA_CHARS, CheckpointText, Encoded
from headrace.triggers.kafka.start import Starts

logger = logging.getLogger(__name__)

_TOO_LARGE = (OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError)
_NOTHING = Starts({}, {}, {})
_MAX_REQUEST_CHARS = 512 * 1024  # a broker writes a request as one batch, of 1 MiB at most by default
_CHARS_PER_PARTITION = 200  # a topic's name, numbers


class Committed(Protocol):
    """What a committer reads of an assigned partition."""

    @property
    def topic(self) -> str:
        """Its name."""

    @property
    def partition(self) -> int:
        """Its number."""

    @property
    def checkpoint(self) -> Checkpoint:
        """What is so now."""


class Committer:
    """Explicit offsets only, one commit at a time, under the generation that gave the partitions.

    The gate is closed from the end of a revoke to the next assignment: a commit that is sent while the group
    rebalances waits for the whole round, then fails and costs the member its identity. And aiokafka tries a
    commit again under whatever generation is current, in which the partition may be somebody else's.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        metrics: TriggerMetrics,
        max_metadata_chars: int = MAX_METADATA_CHARS,
    ) -> None:
        """No partition's metadata gets longer than `max_metadata_chars`; brokers that take less say so."""
        self._consumer = consumer
        self._metrics = metrics
        self._max_chars = max_metadata_chars
        self._reported_max_chars: int | None = None
        self._starts = _NOTHING
        self._committed: dict[TopicPartition, Checkpoint] = {}
        self._doubtful: set[TopicPartition] = set()  # a commit was sent, and how it went isn't known
        self._behind: set[TopicPartition] = set()  # reported as such
        self._generation: int | None = None
        self._lock = asyncio.Lock()

    def open(self, starts: Starts, generation: int) -> None:
        """A new assignment, given in `generation`: what the broker holds for its partitions."""
        self._starts = starts
        self._committed = dict(starts.committed)
        self._doubtful.clear()
        self._generation = generation if generation >= 0 else None

    def close(self) -> None:
        """No commits until `open`. One that is under way has ended before, as commits wait for each other."""
        self._generation = None

    async def forget(self, partition: Committed) -> None:
        """It starts anew, its log was cut or replaced: its next commit is sent, and may be below the last."""
        tp = _tp(partition)
        async with self._lock:  # a commit under way would be remembered after this
            self._committed.pop(tp, None)
            self._doubtful.add(tp)

    def committed(self, partition: Committed) -> int | None:
        """The offset of the last successful commit."""
        last = self._committed.get(_tp(partition))
        return last.offset if last is not None else None

    async def commit(self, partitions: Iterable[Committed], timeout_seconds: float) -> bool:
        """Commit what has changed, if the broker takes it within `timeout_seconds`.

        True: the broker holds all offsets, and attempts, plan and acked runs as far as they fit.
        A commit that fails loses nothing: what it covered is delivered again if this replica goes.
        """
        try:
            async with asyncio.timeout(timeout_seconds), self._lock:
                return await self._commit(partitions)
        except TimeoutError:
            self._failed(f"no answer within {timeout_seconds:g} s")
            return False

    async def _commit(self, partitions: Iterable[Committed]) -> bool:
        if not self._is_open:
            return False
        now = {_tp(partition): partition.checkpoint for partition in partitions}
        behind = {tp for tp in now if self._is_behind(tp, now[tp])}
        waiting = {
            tp: checkpoint
            for tp, checkpoint in now.items()
            if tp not in behind and (tp in self._doubtful or checkpoint != self._committed.get(tp))
        }
        while waiting:
            request = self._next_request(waiting)
            # Asked before each request: a membership may be lost between two.
            if not self._is_open or not await self._send(waiting, request):
                return False
            waiting = {tp: it for tp, it in waiting.items() if tp not in request or tp in self._doubtful}
        return not behind

    @property
    def _is_open(self) -> bool:
        return self._generation is not None and self._generation == generation(self._consumer)

    def _is_behind(self, tp: TopicPartition, checkpoint: Checkpoint) -> bool:
        last = self._committed.get(tp)
        if last is None or last.offset <= checkpoint.offset:
            return False
        if tp not in self._behind:
            self._behind.add(tp)
            message = (
                "%s/%d: the commit stays at offset %d: %d would be a step back; this is a bug of Headrace"
            )
            logger.error(message, tp.topic, tp.partition, last.offset, checkpoint.offset)
        return True

    def _next_request(self, waiting: Mapping[TopicPartition, Checkpoint]) -> dict[TopicPartition, Encoded]:
        """Metadata of as many partitions as go into one request, at least one."""
        request: dict[TopicPartition, Encoded] = {}
        room = _MAX_REQUEST_CHARS
        for tp, checkpoint in waiting.items():
            count = self._starts.first_partition_counts[tp.topic]
            encoded = CheckpointText(count, checkpoint).encode(self._max_chars)
            room -= len(encoded.text) + _CHARS_PER_PARTITION
            if request and room < 0:
                break
            request[tp] = encoded
        return request

    async def _send(
        self, checkpoints: Mapping[TopicPartition, Checkpoint], request: Mapping[TopicPartition, Encoded]
    ) -> bool:
        """False: in vain. True: the broker has it, or it stays in doubt and is to be sent again with less."""
        self._doubtful |= request.keys()
        try:
            await self._consumer.commit({tp: (checkpoints[tp].offset, it.text) for tp, it in request.items()})
        except KafkaError as error:
            longest = max(len(it.text) for it in request.values())
            if isinstance(error, _TOO_LARGE) and longest:
                self._max_chars = _less_than(longest, self._max_chars)
                return True
            self._failed(_reason(error))
            return False
        self._committed |= {tp: checkpoints[tp] for tp in request}
        self._doubtful -= request.keys()
        self._report_left_out(request.values())
        self._metrics.commits_done.inc()
        return True

    def _report_left_out(self, request: Iterable[Encoded]) -> None:
        """Once for each limit."""
        if self._reported_max_chars == self._max_chars or all(it.is_whole for it in request):
            return
        self._reported_max_chars = self._max_chars
        logger.warning(
            "a commit holds at most %d characters of metadata, too few for all that is known above it: "
            "of what is left out, acked records are delivered again after a rebalance or a restart, attempts "
            "are counted anew, and a batch may get other boundaries; raise the broker's "
            "offset.metadata.max.bytes (default 4096, up to %d are used)",
            self._max_chars,
            MAX_METADATA_CHARS,
        )

    def _failed(self, why: str) -> None:
        self._metrics.commits_failed.inc()
        logger.warning("a commit failed (%s): what it covered is delivered again if this replica goes", why)


def _reason(error: KafkaError) -> str:
    if isinstance(error, CommitFailedError):
        return "the group has gone on without this replica"
    return str(error) or type(error).__name__


def _less_than(refused_chars: int, limit: int) -> int:
    """Halved until it is below what was refused: from 32767 past 4095, just what brokers take by default."""
    while limit >= refused_chars:
        limit //= 2
    return limit


def _tp(partition: Committed) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
