"""Topics as a broker describes them: their ids, which one made anew doesn't share, and their partitions."""

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from headrace.runtime.kafka.protocol import Uuid
from headrace.runtime.partitions.offsets.checkpoint_text import TOPIC_ID_CHARS

_NO_LEADER = -1
_NO_ID = bytes(16)
_NOT_SAID = -(2**31)
_MAY_WRITE = 1 << 4
_AWAY = (UnknownTopicOrPartitionError.errno, TopicAuthorizationFailedError.errno)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as the broker describes it.

    `id` is the beginning of its id; of its name's checksum where the broker knows no ids (before 2.8).
    """

    id: str
    partition_count: int
    leaderless: frozenset[int]
    """The numbers of the partitions that nobody can read now."""


async def describe_topics(admin: AIOKafkaAdminClient, names: Collection[str]) -> dict[str, TopicDescription]:
    """Return those of `names` that exist. None is made by asking. Raises KafkaError.

    aiokafka's own question has no ids, and lets the broker make what is missing.
    """
    topics = await _ask(admin, names)
    return {topic["topic"]: _topic(topic) for topic in topics if for_code(topic["error_code"]).errno == 0}


async def unwritable_topics(admin: AIOKafkaAdminClient, names: Collection[str]) -> dict[str, KafkaError]:
    """Return those of `names` that can't be written to, and why: missing, or not for us. Raises KafkaError.

    Where the broker makes topics for who writes to them, it makes these.
    """
    found: dict[str, KafkaError] = {}
    for topic in await _ask(admin, names, for_writing=True):
        rights = topic.get("authorized_operations", _NOT_SAID)
        # Whether it may be written to is said only of topics that this user may see.
        if topic["error_code"] in _AWAY:
            found[topic["topic"]] = for_code(topic["error_code"])()
        elif rights != _NOT_SAID and not rights & _MAY_WRITE:
            found[topic["topic"]] = TopicAuthorizationFailedError(topic["topic"])
    return found


async def list_topics(admin: AIOKafkaAdminClient) -> set[str]:
    """Return all topics that this user may see, but for Kafka's own. Raises KafkaError."""
    return {
        topic["topic"]
        for topic in await _ask(admin, None)
        if for_code(topic["error_code"]).errno == 0 and not topic["is_internal"]
    }


async def topic_names(admin: AIOKafkaAdminClient, names: Collection[str]) -> dict[bytes, str]:
    """Return names by id, as group coordinators tell of topics. Raises KafkaError."""
    topics = await _ask(admin, names)
    return {topic["topic_id"]: topic["topic"] for topic in topics if topic.get("topic_id", _NO_ID) != _NO_ID}


async def _ask(
    admin: AIOKafkaAdminClient, names: Collection[str] | None, *, for_writing: bool = False
) -> list[dict[str, Any]]:
    """Describe these topics, or all where no names are given."""
    asked = None if names is None else sorted(names)
    request = _TopicsRequest(asked, for_writing=for_writing)
    response: Any = await admin._send_request(request)  # noqa: SLF001
    return [topic for topic in response.to_object()["topics"] if topic["topic"] is not None]


def _topic(described: Mapping[str, Any]) -> TopicDescription:
    partitions = described["partitions"]
    leaderless = frozenset(part["partition"] for part in partitions if part["leader"] == _NO_LEADER)
    topic_id = described.get("topic_id", _NO_ID)
    # Without ids a topic that is made anew can't be told from the one before: its name has to do.
    if topic_id == _NO_ID:
        topic_id = crc32(described["topic"].encode()).to_bytes(16, "little")
    return TopicDescription(shown_id(topic_id), len(partitions), leaderless)


def shown_id(topic_id: bytes) -> str:
    """Return the beginning of a topic's id, as the broker's own tools show it."""
    return base64.urlsafe_b64encode(topic_id).decode()[:TOPIC_ID_CHARS]


# ---- Metadata v10, the first one with ids; aiokafka ends at v5


class _Response(Response):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString()),
                ("port", Int32),
                ("rack", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString()),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString()),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _Request(RequestStruct):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 3
    API_VERSION = 10
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _Response
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("topic", CompactString()), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicsRequest(Request[MetadataRequest_v5 | _Request]):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 3

    def __init__(self, names: list[str] | None, *, for_writing: bool) -> None:
        self._names = names
        self._for_writing = for_writing

    def build(self, request_struct_class: type[Any]) -> Any:
        """Build the request, for the highest version that the broker and we know."""
        if request_struct_class is not _Request:
            return request_struct_class(self._names, self._for_writing)
        names = self._names
        topics: list[tuple[Any, ...]] | None
        topics = None if names is None else [(_NO_ID, name, {}) for name in names]
        return request_struct_class(topics, self._for_writing, False, self._for_writing, {})
