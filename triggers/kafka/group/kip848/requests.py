"""Requests to a group's coordinator that aiokafka lacks.

ConsumerGroupHeartbeat (KIP-848), OffsetCommit v9, which takes a member's epoch, and OffsetFetch v9, which
tells a member of the coordinator's epoch only; aiokafka ends at v3 of these two.
"""

from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Any

from aiokafka.errors import UnknownError
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from headrace.runtime.kafka.protocol import Uuid
from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.client.commits import Commit
from headrace.triggers.kafka.group.kip848.machine import (
    GroupSettings,
    Heartbeat,
    HeartbeatAnswer,
    TopicIdPartition,
)

_UNCHANGED_MS = -1
_MIN_INTERVAL_SECONDS = 0.05
"""Between heartbeats, whatever is asked for."""
_TOPIC = (("topic_id", Uuid), ("partitions", CompactArray(Int32)), ("tags", TaggedFields))
_ASSIGNMENT = Schema(("topics", CompactArray(*_TOPIC)), ("tags", TaggedFields))


class _Assignment(AbstractType[Any]):  # type: ignore[misc]  # aiokafka is untyped
    """A struct that may be missing: a byte below 0 says so."""

    @classmethod
    def encode(cls, value: Any) -> bytes:
        """Encode it, for tests."""
        return bytes(Int8.encode(-1) if value is None else Int8.encode(1) + _ASSIGNMENT.encode(value))

    @classmethod
    def decode(cls, data: BytesIO) -> Any:
        return None if Int8.decode(data) < 0 else _ASSIGNMENT.decode(data)


class HeartbeatResponse(Response):  # type: ignore[misc]  # as above
    """A coordinator's answer to a heartbeat."""

    API_KEY = 68
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString()),
        ("member_id", CompactString()),
        ("member_epoch", Int32),
        ("heartbeat_interval_ms", Int32),
        ("assignment", _Assignment),
        ("tags", TaggedFields),
    )


class HeartbeatStruct(RequestStruct):  # type: ignore[misc]  # as above
    """A heartbeat, version 1, of Kafka 4.0: members name themselves."""

    API_KEY = 68
    API_VERSION = 1
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = HeartbeatResponse
    SCHEMA = Schema(
        ("group_id", CompactString()),
        ("member_id", CompactString()),
        ("member_epoch", Int32),
        ("instance_id", CompactString()),
        ("rack_id", CompactString()),
        ("rebalance_timeout_ms", Int32),
        ("subscribed_topic_names", CompactArray(CompactString())),
        ("subscribed_topic_regex", CompactString()),
        ("server_assignor", CompactString()),
        ("topic_partitions", CompactArray(*_TOPIC)),
        ("tags", TaggedFields),
    )


class HeartbeatRequest(Request[HeartbeatStruct]):  # type: ignore[misc]  # as above
    """A request with one heartbeat of one member."""

    API_KEY = 68

    def __init__(self, settings: GroupSettings, member_id: str, heartbeat: Heartbeat) -> None:
        self._settings, self._member_id, self._heartbeat = settings, member_id, heartbeat

    def build(self, request_struct_class: type[Any]) -> Any:
        """Build the request, for the only version that we know."""
        settings, heartbeat = self._settings, self._heartbeat
        timeout_ms, assignor = _UNCHANGED_MS, None
        if heartbeat.is_full:
            timeout_ms, assignor = round(settings.rebalance_timeout_seconds * 1000), settings.remote_assignor
        return request_struct_class(
            settings.group,
            self._member_id,
            heartbeat.epoch,
            settings.instance_id or None,
            None,
            timeout_ms,
            None if heartbeat.topics is None else sorted(heartbeat.topics),
            None,
            assignor,
            None if heartbeat.owned is None else _by_topic(heartbeat.owned),
            {},
        )


def _by_topic(parts: frozenset[TopicIdPartition]) -> list[tuple[bytes, list[int], dict[int, bytes]]]:
    numbers: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(parts):
        numbers.setdefault(topic_id, []).append(number)
    return [(topic_id, found, {}) for topic_id, found in numbers.items()]


def read_answer(response: Any) -> HeartbeatAnswer:
    """Return the answer for the machine. Raises UnknownError where it makes no sense."""
    assigned = None
    if response.assignment is not None:
        topics, _ = response.assignment
        assigned = frozenset((topic_id, number) for topic_id, numbers, _ in topics for number in numbers)
    is_odd = response.member_epoch <= 0 or any(number < 0 for _, number in assigned or ())
    if is_odd and not response.error_code:
        raise UnknownError("an answer to a heartbeat that makes no sense")
    return HeartbeatAnswer(
        response.error_code,
        response.error_message or "",
        response.member_epoch,
        max(response.heartbeat_interval_ms / 1000, _MIN_INTERVAL_SECONDS),
        assigned,
    )


_NO_LEADER_EPOCH = -1


class CommitResponse(Response):  # type: ignore[misc]  # aiokafka is untyped
    """An error for each partition, 0 where its commit is safe."""

    API_KEY = 8
    API_VERSION = 9
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString()),
                (
                    "partitions",
                    CompactArray(("partition", Int32), ("error_code", Int16), ("tags", TaggedFields)),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class CommitStruct(RequestStruct):  # type: ignore[misc]  # as above
    """A commit, as brokers with the protocol `consumer` take it."""

    API_KEY = 8
    API_VERSION = 9
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = CommitResponse
    SCHEMA = Schema(
        ("group_id", CompactString()),
        ("member_epoch", Int32),
        ("member_id", CompactString()),
        ("instance_id", CompactString()),
        (
            "topics",
            CompactArray(
                ("topic", CompactString()),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", CompactString()),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class CommitRequest(Request[CommitStruct]):  # type: ignore[misc]  # as above
    """A request with a member's commits. `who`: member id, epoch and instance id."""

    API_KEY = 8

    def __init__(
        self, group: str, who: tuple[str, int, str], offsets: Mapping[PartitionKey, tuple[int, str]]
    ) -> None:
        self._group, self._who, self._offsets = group, who, offsets

    def build(self, request_struct_class: type[Any]) -> Any:
        """Build the request, for the only version that we know."""
        member_id, epoch, instance_id = self._who
        topics: dict[str, list[tuple[Any, ...]]] = {}
        for (topic, number), (offset, text) in sorted(self._offsets.items()):
            topics.setdefault(topic, []).append((number, offset, _NO_LEADER_EPOCH, text, {}))
        rows: list[tuple[Any, ...]] = [(topic, partitions, {}) for topic, partitions in topics.items()]
        return request_struct_class(self._group, epoch, member_id, instance_id or None, rows, {})


def read_errors(response: Any) -> dict[PartitionKey, int]:
    """Return errors by partition, without those that are safe."""
    return {
        PartitionKey(topic, number): code
        for topic, partitions, _ in response.topics
        for number, code, _ in partitions
        if code
    }


_ROW = (
    ("partition", Int32),
    ("offset", Int64),
    ("leader_epoch", Int32),
    ("metadata", CompactString()),
    ("error_code", Int16),
    ("tags", TaggedFields),
)
_TOPICS = CompactArray(("topic", CompactString()), ("rows", CompactArray(*_ROW)), ("tags", TaggedFields))


class FetchCommitsResponse(Response):  # type: ignore[misc]  # aiokafka is untyped
    """Commits of each group; offset -1: no commit."""

    API_KEY = 9
    API_VERSION = 9
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("group_id", CompactString()),
                ("topics", _TOPICS),
                ("error_code", Int16),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class FetchCommitsStruct(RequestStruct):  # type: ignore[misc]  # as above
    """A question about commits, as brokers with the protocol `consumer` take it."""

    API_KEY = 9
    API_VERSION = 9
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = FetchCommitsResponse
    SCHEMA = Schema(
        (
            "groups",
            CompactArray(
                ("group_id", CompactString()),
                ("member_id", CompactString()),
                ("member_epoch", Int32),
                (
                    "topics",
                    CompactArray(
                        ("topic", CompactString()),
                        ("partitions", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class FetchCommitsRequest(Request[FetchCommitsStruct]):  # type: ignore[misc]  # as above
    """A request for a group's commits. `who`: member id and epoch.

    Offsets of transactions that are open are waited for.
    """

    API_KEY = 9

    def __init__(self, group: str, who: tuple[str, int], keys: Collection[PartitionKey]) -> None:
        self._group, self._who, self._keys = group, who, keys

    def build(self, request_struct_class: type[Any]) -> Any:
        """Build the request, for the only version that we know."""
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(self._keys):
            numbers.setdefault(topic, []).append(number)
        topics: list[tuple[Any, ...]] = [(topic, found, {}) for topic, found in numbers.items()]
        return request_struct_class([(self._group, *self._who, topics, {})], True, {})


def read_commits(response: Any, name: str) -> tuple[int, dict[PartitionKey, Commit]]:
    """Return the group's first error or 0, and a commit for each partition, below 0 where there is none."""
    code, commits = 0, {}
    for group, topics, group_error, _ in response.groups:
        if group != name:
            continue
        code = code or group_error
        for topic, rows, _ in topics:
            for number, offset, _, metadata, error_code, _ in rows:
                code = code or error_code
                commits[PartitionKey(topic, number)] = Commit(offset, metadata or "")
    return code, commits
