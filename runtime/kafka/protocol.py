"""Parts of Kafka's protocol that aiokafka lacks: UUIDs, and ConsumerGroupDescribe (KIP-848)."""

from io import BytesIO
from typing import Any

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

_BYTES = 16


class Uuid(AbstractType[bytes]):  # type: ignore[misc]  # aiokafka is untyped
    """A UUID on the wire: 16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Return the 16 bytes unchanged."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """Return the next 16 bytes. Raises ValueError where fewer are left."""
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
    """A question about one group: who is in it by the protocol `consumer`."""

    API_KEY = 69

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[Any]) -> Any:
        """Build the request, for the only version that we know."""
        return request_struct_class([self._group], False, {})
