"""OffsetCommit v9, which takes a member's epoch; aiokafka ends at v3."""

from collections.abc import Mapping
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from headrace.runtime.partitions.key import PartitionKey

_NO_LEADER_EPOCH = -1


class CommitResponse(Response):  # type: ignore[misc]  # aiokafka is untyped
    """An error for each partition, 0 where it is safe."""

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
    """What a broker with the protocol `consumer` takes."""

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
    """`who`: member id, epoch and instance id."""

    API_KEY = 8

    def __init__(
        self, group: str, who: tuple[str, int, str], offsets: Mapping[PartitionKey, tuple[int, str]]
    ) -> None:
        self._group, self._who, self._offsets = group, who, offsets

    def build(self, request_struct_class: type[Any]) -> Any:
        """For the only version that we know."""
        member_id, epoch, instance_id = self._who
        topics: dict[str, list[tuple[Any, ...]]] = {}
        for (topic, number), (offset, text) in sorted(self._offsets.items()):
            topics.setdefault(topic, []).append((number, offset, _NO_LEADER_EPOCH, text, {}))
        rows: list[tuple[Any, ...]] = [(topic, partitions, {}) for topic, partitions in topics.items()]
        return request_struct_class(self._group, epoch, member_id, instance_id or None, rows, {})


def read_errors(response: Any) -> dict[PartitionKey, int]:
    """By partition; those that are safe are left out."""
    return {
        PartitionKey(topic, number): code
        for topic, partitions, _ in response.topics
        for number, code, _ in partitions
        if code
    }
