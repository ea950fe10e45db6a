"""Streams: made, described, written, read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from headrace.runtime.v3io.client import V3ioClient, nothing
from headrace.runtime.v3io.errors import V3ioRefusedError
from headrace.runtime.v3io.folders import list_folder
from headrace.runtime.v3io.place import StreamPath
from headrace.runtime.v3io.records import NewRecord, StreamRecord, decode_record


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """How a stream was made."""

    shard_count: int
    retention_hours: int


@dataclass(frozen=True, slots=True)
class ShardRead:
    """One read of a shard, where the next one begins, and how many records there are behind it."""

    next_location: str
    behind_count: int
    records: Sequence[StreamRecord]


async def describe(client: V3ioClient, stream: StreamPath) -> StreamInfo:
    """Raises V3ioRefusedError where there is none."""
    return await client.read("DescribeStream", stream.url_path, None, _info)


async def create(client: V3ioClient, stream: StreamPath, shard_count: int, retention_hours: int) -> None:
    """Raises V3ioRefusedError where it is there already."""
    body = {"ShardCount": shard_count, "RetentionPeriodHours": retention_hours}
    await client.write("CreateStream", stream.url_path, body, nothing)


async def delete(client: V3ioClient, stream: StreamPath) -> None:
    """Its shards, the state of its groups, then itself. Raises V3ioRefusedError where there is none."""
    for entry in await list_folder(client, stream.container, f"{stream.path}/"):
        await client.request("DELETE", f"/{quote(stream.container)}/{quote(entry.path)}")
    await client.request("DELETE", stream.url_path)


async def put(client: V3ioClient, stream: StreamPath, records: Sequence[NewRecord]) -> list[tuple[int, int]]:
    """Shard and sequence number of each. Raises V3ioRefusedError where one isn't taken; others may be."""
    body = {"Records": [record.encoded() for record in records]}
    entries = await client.write(
        "PutRecords", stream.url_path, body, lambda said: list(map(_put, said["Records"]))
    )
    for entry in entries:
        if isinstance(entry, str):
            raise V3ioRefusedError(f"{client.access}: {stream} takes no such record: {entry}", 400, entry)
    return [entry for entry in entries if not isinstance(entry, str)]


async def seek(client: V3ioClient, stream: StreamPath, shard: int, kind: str, **at: int) -> str:
    """A location. `kind`: EARLIEST, LATEST, SEQUENCE or TIME, with the numbers that it takes.

    Raises V3ioRefusedError where there is no shard yet, and with a number that it doesn't have.
    """
    body = {"Type": kind, **at}
    return await client.read("SeekShard", stream.beside(shard), body, lambda said: str(said["Location"]))


async def get(client: V3ioClient, stream: StreamPath, shard: int, location: str, limit: int) -> ShardRead:
    """At most `limit` records from there on. Raises V3ioRefusedError where what was there is gone."""
    body = {"Location": location, "Limit": limit}
    return await client.read("GetRecords", stream.beside(shard), body, _fetched)


def _info(said: Mapping[str, Any]) -> StreamInfo:
    count = int(said["ShardCount"])
    if count < 1:
        raise ValueError(count)
    return StreamInfo(count, int(said["RetentionPeriodHours"]))


def _put(entry: Mapping[str, Any]) -> tuple[int, int] | str:
    """Where it went, or why it didn't."""
    if "SequenceNumber" in entry:
        return int(entry["ShardId"]), int(entry["SequenceNumber"])
    return str(entry.get("ErrorMessage", entry["ErrorCode"]))


def _fetched(said: Mapping[str, Any]) -> ShardRead:
    records = [decode_record(entry) for entry in said["Records"] or ()]
    return ShardRead(str(said["NextLocation"]), int(said.get("RecordsBehindLatest", 0)), records)
