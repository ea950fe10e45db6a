"""The record that a partition can't get past, as people are shown it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.range_buffer import OffsetRange
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.undecodable import UndecodableError

_MOST_BYTES = 2000
_MOST_HEADERS = 50
_CONTENT = ("key", "body", "headers")


def stuck_record(partition: AssignedPartition, lane: PartitionLane) -> dict[str, Any] | None:
    """JSON types only. None where nothing of it is here, as of a range or a chunk that can't be read."""
    record = lane.ending
    if record is None or isinstance(record, OffsetRange):
        return None
    failed = partition.failed.of(record.offset)
    try:
        return {
            "offset": record.offset,
            "timestamp": _time(record),
            "failures": failed.failures if failed is not None else 0,
            "bodyBytes": len(record.value or b""),
            "key": _text(record.key),
            "body": _text(record.value),
            "headers": [[name, _text(value)] for name, value in record.headers[:_MOST_HEADERS]],
        }
    except UndecodableError:
        return None


def without_content(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What anybody may see of it."""
    return None if record is None else {**record, **dict.fromkeys(_CONTENT)}


def _time(record: WireRecord) -> str | None:
    timestamp: int | None = record.timestamp  # the oldest logs have none
    if timestamp is None or timestamp < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp / 1e3, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # producers may write any number
        return f"{timestamp} ms"


def _text(value: bytes | None) -> str | None:
    """The beginning of it, whatever it is."""
    if value is None:
        return None
    text = value[:_MOST_BYTES].decode("utf-8", "backslashreplace")
    return f"{text}... ({len(value)} bytes in all)" if len(value) > _MOST_BYTES else text
