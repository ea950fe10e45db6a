"""ConsumerGroupHeartbeat (KIP-848), which aiokafka doesn't know."""

from io import BytesIO
from typing import Any

from aiokafka.errors import UnknownError
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int8, Int16, Int32, Schema, TaggedFields

from headrace.runtime.kafka.requests.uuid import Uuid
from headrace.triggers.kafka.group.heartbeat import Heartbeat, HeartbeatAnswer, TopicIdPartition
from headrace.triggers.kafka.group.settings import GroupSettings

_UNCHANGED_MS = -1
_LEAST_SECONDS = 0.05
"""Between heartbeats, whatever is asked for."""
_TOPIC = (("topic_id", Uuid), ("partitions", CompactArray(Int32)), ("tags", TaggedFields))
_ASSIGNMENT = Schema(("topics", CompactArray(*_TOPIC)), ("tags", TaggedFields))


class _Assignment(AbstractType[Any]):  # type: ignore[misc]  # aiokafka is untyped
    """A struct that may be missing: a byte below 0 says so."""

    @classmethod
    def encode(cls, value: Any) -> bytes:
        """For tests."""
        return bytes(Int8.encode(-1) if value is None else Int8.encode(1) + _ASSIGNMENT.encode(value))

    @classmethod
    def decode(cls, data: BytesIO) -> Any:
        return None if Int8.decode(data) < 0 else _ASSIGNMENT.decode(data)


class HeartbeatResponse(Response):  # type: ignore[misc]  # as above
    """What a coordinator answers."""

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
    """Version 1, of Kafka 4.0: members name themselves."""

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
    """One heartbeat of one member."""

    API_KEY = 68

    def __init__(self, settings: GroupSettings, member_id: str, heartbeat: Heartbeat) -> None:
        self._settings, self._member_id, self._heartbeat = settings, member_id, heartbeat

    def build(self, request_struct_class: type[Any]) -> Any:
        """For the only version that we know."""
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
    """As the machine reads it. Raises UnknownError where that makes no sense."""
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
        max(response.heartbeat_interval_ms / 1000, _LEAST_SECONDS),
        assigned,
    )
