"""A stream's record, before it is put and as it comes."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be put. Without a shard it goes by its partition key, without that anywhere."""

    data: bytes
    partition_key: str = ""
    client_info: bytes = b""
    shard: int | None = None

    def encoded(self) -> dict[str, Any]:
        """Return the record as PutRecords wants it."""
        fields: dict[str, Any] = {"Data": base64.b64encode(self.data).decode()}
        if self.partition_key:
            fields["PartitionKey"] = self.partition_key
        if self.client_info:
            fields["ClientInfo"] = base64.b64encode(self.client_info).decode()
        if self.shard is not None:  # shard 0 is one
            fields["ShardId"] = self.shard
        return fields


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A record of a shard: key and info are empty where its producer gave none. Times are ms since 1970."""

    sequence: int
    arrived_ms: int
    data: bytes
    partition_key: str = ""
    client_info: bytes = b""


def decode_record(fields: Mapping[str, Any]) -> StreamRecord:
    """Return the record of an entry of GetRecords' `Records`.

    Raises KeyError, TypeError or ValueError where it is none.
    """
    return StreamRecord(
        int(fields["SequenceNumber"]),
        fields["ArrivalTimeSec"] * 1000 + fields.get("ArrivalTimeNSec", 0) // 1_000_000,
        base64.b64decode(fields["Data"]),
        fields.get("PartitionKey") or "",
        base64.b64decode(fields.get("ClientInfo") or ""),
    )
