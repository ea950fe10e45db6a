"""A group's commits on its broker, read and written with what the broker says of each partition."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import SimpleNamespace
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.commit import OffsetFetchRequest

_UNANSWERED_AT = "headrace_unanswered_at"
# About one partition. All other errors are about the request, the group or its coordinator.
_OF_ONE_PARTITION = {UnknownTopicOrPartitionError.errno, TopicAuthorizationFailedError.errno}


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset of one partition of a group, as the broker holds it, with its metadata."""

    offset: int
    metadata: str


class PartitionsRefusedError(KafkaError):  # type: ignore[misc]  # aiokafka is untyped
    """The broker took no commit of these partitions; of all others in the request it did."""

    retriable = False

    def __init__(self, errors: Mapping[TopicPartition, KafkaError]) -> None:
        super().__init__(f"{len(errors)} partitions")
        self.errors = errors


async def fetch_commits(
    admin: AIOKafkaAdminClient, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Commit]:
    """Return the group's commits of `partitions`, without those that have none. Raises KafkaError.

    The admin's own method takes an answer that is an error as a whole (coordinator moved, group loading) for
    "no commits", and the consumer's drops the metadata.
    """
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    # Asked each time: a coordinator that was remembered may have moved.
    coordinator = await admin.find_coordinator(group)
    request = OffsetFetchRequest(group, list(by_topic.items()))
    response: Any = await admin._send_request(request, coordinator)  # noqa: SLF001
    # "No commits" and "ask somebody else" look alike unless the error of the whole answer is read.
    _raise_for(getattr(response, "error_code", 0))
    commits = {}
    for topic, rows in response.topics:
        for partition, offset, metadata, error_code in rows:
            _raise_for(error_code)
            commits[TopicPartition(topic, partition)] = Commit(offset, metadata)
    # A partition without an answer isn't one without a commit: initialOffset would apply to it.
    if missing := set(partitions) - commits.keys():
        raise UnknownError(f"the broker says nothing about {len(missing)} partitions of group {group}")
    return {tp: commit for tp, commit in commits.items() if commit.offset >= 0}


def _raise_for(error_code: int) -> None:
    if error_code:
        error: KafkaError = for_code(error_code)()
        raise error


def unanswered_at(consumer: AIOKafkaConsumer) -> float:
    """Return when, by time.monotonic, a commit was last left without an answer; -inf before one was.

    Of a consumer that tells partitions apart: aiokafka sends such a commit again, and says nothing of it.
    """
    return float(getattr(consumer._coordinator, _UNANSWERED_AT, -inf))  # noqa: SLF001


def tell_partitions_apart(consumer: AIOKafkaConsumer) -> None:
    """Let `commit` raise PartitionsRefusedError, and fail quietly where nobody waits for it any more.

    By default one partition's error (its topic is deleted) is taken for the whole request, and sent again
    until somebody gives up; and a failure that nobody waits for is a traceback in the log.
    """
    coordinator: Any = consumer._coordinator  # noqa: SLF001
    commit = type(coordinator)._do_commit_offsets  # noqa: SLF001

    async def commit_each(assignment: object, offsets: Mapping[TopicPartition, object]) -> None:
        task = asyncio.current_task()
        assert task is not None
        # Retrieves the exception, so that asyncio doesn't log it where nobody waits any more.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        request = _OneCommit(coordinator)
        await commit(request, assignment, offsets)
        if request.refused:
            raise PartitionsRefusedError(request.refused)

    coordinator._do_commit_offsets = commit_each  # noqa: SLF001


class _OneCommit:
    """Stand-in for the coordinator during one commit: takes errors about one partition out of the answer."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self.refused: dict[TopicPartition, KafkaError] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coordinator, name)

    async def _send_req(self, request: object) -> Any:
        response = None
        try:
            response = await self._coordinator._send_req(request)  # noqa: SLF001
        finally:
            if response is None:
                setattr(self._coordinator, _UNANSWERED_AT, time.monotonic())
        topics = [(topic, self._others(topic, rows)) for topic, rows in response.topics]
        return SimpleNamespace(topics=topics)

    def _others(self, topic: str, rows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        refused = {number: code for number, code in rows if code in _OF_ONE_PARTITION}
        self.refused |= {TopicPartition(topic, number): for_code(code)() for number, code in refused.items()}
        return [row for row in rows if row[0] not in refused]
