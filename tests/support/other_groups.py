"""Members of groups in which nobody is a consumer: share groups, and those of Kafka Streams."""

import asyncio
import uuid
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

_TAGS = ("tags", TaggedFields)
_NAMES = CompactArray(CompactString())
_SUBTOPOLOGY = CompactArray(
    ("id", CompactString()),
    ("source_topics", _NAMES),
    ("source_regex", _NAMES),
    ("changelogs", _NAMES),
    ("sinks", _NAMES),
    ("repartitions", _NAMES),
    ("copartitions", _NAMES),
    _TAGS,
)
_TASKS = CompactArray(("subtopology", CompactString()), ("partitions", CompactArray(Int32)), _TAGS)


class ShareAnswer(Response):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 76
    API_VERSION = 1
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16), ("error_message", CompactString()))


class ShareStruct(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY = 76
    API_VERSION = 1
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ShareAnswer
    SCHEMA = Schema(
        ("group", CompactString()),
        ("member", CompactString()),
        ("epoch", Int32),
        ("rack", CompactString()),
        ("topics", _NAMES),
        _TAGS,
    )


class StreamsAnswer(ShareAnswer):
    API_KEY = 88
    API_VERSION = 0
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16), ("error_message", CompactString()))


class StreamsStruct(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY = 88
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = StreamsAnswer
    SCHEMA = Schema(
        ("group", CompactString()),
        ("member", CompactString()),
        ("epoch", Int32),
        ("endpoints_epoch", Int32),
        ("instance", CompactString()),
        ("rack", CompactString()),
        ("rebalance_timeout_ms", Int32),
        ("has_topology", Int8),
        ("topology_epoch", Int32),
        ("subtopologies", _SUBTOPOLOGY),
        ("topology_tags", TaggedFields),
        ("active", _TASKS),
        ("standby", _TASKS),
        ("warmup", _TASKS),
        ("process", CompactString()),
        ("endpoint", Int8),
        ("client_tags", CompactArray(Int32)),
        ("offsets", CompactArray(Int32)),
        ("ends", CompactArray(Int32)),
        ("is_over", Boolean),
        _TAGS,
    )


class Join(Request[ShareStruct]):  # type: ignore[misc]  # as above
    API_KEY = 76

    def __init__(self, group: str, topic: str) -> None:
        self._group, self._topic = group, topic

    def build(self, request_struct_class: type[Any]) -> Any:
        return request_struct_class(self._group, str(uuid.uuid4()), 0, None, [self._topic], {})


class StreamsJoin(Request[StreamsStruct]):  # type: ignore[misc]  # as above
    API_KEY = 88

    def __init__(self, group: str, topic: str) -> None:
        self._group, self._topic = group, topic

    def build(self, request_struct_class: type[Any]) -> Any:
        member = (self._group, str(uuid.uuid4()), 0, 0, None, None, 60_000)
        topology: tuple[Any, ...] = (1, 0, [("0", [self._topic], [], [], [], [], [], {})], {})
        tasks: tuple[Any, ...] = ([], [], [])
        return request_struct_class(*member, *topology, *tasks, "p", -1, None, None, None, False, {})


async def join(bootstrap: str, kind: type[Join] | type[StreamsJoin], group: str, topic: str) -> None:
    """Until the coordinator has taken a member in; its session lasts for 45 s without a heartbeat."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    coordinator = await admin.find_coordinator(group)
                    answer = await admin._send_request(kind(group, topic), coordinator)
                except GroupCoordinatorNotAvailableError:
                    await asyncio.sleep(0.1)
                    continue
                if not answer.error_code:
                    return
                if answer.error_code not in {14, 15, 16}:
                    raise AssertionError((answer.error_code, answer.error_message))
                await asyncio.sleep(0.1)
    finally:
        await admin.close()
