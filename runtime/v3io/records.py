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
        """As PutRecords wants it."""
        said: dict[str, Any] = {"Data": base64.b64encode(self.data).decode()}
        if self.partition_key:
            said["PartitionKey"] = self.partition_key
        if self.client_info:
            said["ClientInfo"] = base64.b64encode(self.client_info).decode()
        if self.shard is not None:
            said["ShardId"] = self.shard
        return said


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A record of a shard: key and info are empty where its producer gave none. Times are ms since 1970."""

    sequence: int
    arrived_ms: int
    data: bytes
    partition_key: str = ""
    client_info: bytes = b""


def decode_record(said: Mapping[str, Any]) -> StreamRecord:
    """Of an entry of GetRecords' `Records`. Raises what a wrong one brings."""
    return StreamRecord(
        int(said["SequenceNumber"]),
        said["ArrivalTimeSec"] * 1000 + said.get("ArrivalTimeNSec", 0) // 1_000_000,
        base64.b64decode(said["Data"]),
        said.get("PartitionKey") or "",
        base64.b64decode(said.get("ClientInfo") or ""),
    )
