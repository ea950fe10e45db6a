"""OffsetFetch v9, which tells a member of the coordinator's epoch only; aiokafka ends at v3."""

from collections.abc import Collection
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.client.commits import Commit

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
    """What each group has committed; offset -1: nothing."""

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
    """What a broker with the protocol `consumer` takes."""

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
    """`who`: member id and epoch. Offsets of transactions that are open are waited for."""

    API_KEY = 9

    def __init__(self, group: str, who: tuple[str, int], keys: Collection[PartitionKey]) -> None:
        self._group, self._who, self._keys = group, who, keys

    def build(self, request_struct_class: type[Any]) -> Any:
        """For the only version that we know."""
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(self._keys):
            numbers.setdefault(topic, []).append(number)
        topics: list[tuple[Any, ...]] = [(topic, found, {}) for topic, found in numbers.items()]
        return request_struct_class([(self._group, *self._who, topics, {})], True, {})


def read_commits(response: Any, name: str) -> tuple[int, dict[PartitionKey, Commit]]:
    """Of that group: the first error there is, or 0; and a commit for each partition, below 0 where none."""
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
