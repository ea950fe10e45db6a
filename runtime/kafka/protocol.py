"""Ids of topics, as they are on the wire."""

from io import BytesIO
from typing import Any

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

_BYTES = 16


class Uuid(AbstractType[bytes]):  # type: ignore[misc]  # aiokafka is untyped
    """16 bytes as they are."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Itself."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """The next 16. Raises ValueError."""
        if len(found := data.read(_BYTES)) < _BYTES:
            raise ValueError("an id that is cut off")
        return found


_ASSIGNMENT = Schema(
    (
        "topics",
        CompactArray(
            ("topic_id", Uuid),
            ("topic", CompactString()),
            ("partitions", CompactArray(Int32)),
            ("tags", TaggedFields),
        ),
    ),
    ("tags", TaggedFields),
)


class _DescribeResponse(Response):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 69
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", CompactString()),
                ("group", CompactString()),
                ("state", CompactString()),
                ("group_epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor", CompactString()),
                (
                    "members",
                    CompactArray(
                        ("member_id", CompactString()),
                        ("instance_id", CompactString()),
                        ("rack_id", CompactString()),
                        ("member_epoch", Int32),
                        ("client_id", CompactString()),
                        ("client_host", CompactString()),
                        ("topic_names", CompactArray(CompactString())),
                        ("topic_regex", CompactString()),
                        ("assignment", _ASSIGNMENT),
                        ("target_assignment", _ASSIGNMENT),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeStruct(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY = 69
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _DescribeResponse
    SCHEMA = Schema(
        ("groups", CompactArray(CompactString())),
        ("include_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class DescribeConsumerGroup(Request[_DescribeStruct]):  # type: ignore[misc]  # as above
    """About one group."""

    API_KEY = 69

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[Any]) -> Any:
        """For the only version that we know."""
        return request_struct_class([self._group], False, {})
