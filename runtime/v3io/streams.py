"""Streams of a web API: found, created, described, deleted; records put and read."""

import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from headrace.runtime.v3io.addresses import StreamPath
from headrace.runtime.v3io.client import V3ioAwayError, V3ioClient, V3ioRefusedError, nothing
from headrace.runtime.v3io.records import NewRecord, StreamRecord, decode_record

_DEEPEST = 16  # folders may nest without end; a listing of streams has to end


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, folder or stream in a container.

    `path` has no slash at the front; a folder's ends in one. `shard_count` is None for what is no stream.
    """

    path: str
    shard_count: int | None = None
    retention_hours: int = 0


@dataclass(frozen=True, slots=True)
class FoundStream:
    """A stream that was found in a container."""

    stream: StreamPath
    shard_count: int
    retention_hours: int


async def find_streams(client: V3ioClient, container: str) -> list[FoundStream]:
    """Return all streams of a container, by name. Raises V3ioError."""
    return sorted([it async for it in _streams(client, container, "", 0)], key=lambda it: it.stream.path)


async def list_folder(client: V3ioClient, container: str, prefix: str) -> list[Entry]:
    """Return what is in a folder, one level deep. Raises V3ioRefusedError where there is no such folder."""
    found: list[Entry] = []
    marker = ""
    # A listing comes in pages (the embedded server's have 1000 entries): the marker begins the next one.
    while True:
        # Only with this do streams come with their shards and retention, which tell them from folders.
        query = {"prefix-info": "1"} | ({"prefix": prefix} if prefix else {})
        query |= {"marker": marker} if marker else {}
        root = _checked(await client.request("GET", f"/{quote(container)}", **query))
        found += _entries(root)
        marker = root.findtext("NextMarker", "")
        if root.findtext("IsTruncated", "").lower() != "true":
            return found


async def _streams(client: V3ioClient, container: str, prefix: str, depth: int) -> AsyncIterator[FoundStream]:
    for entry in await list_folder(client, container, prefix):
        if entry.shard_count is not None:
            stream = StreamPath(container, entry.path.strip("/"))
            yield FoundStream(stream, entry.shard_count, entry.retention_hours)
        elif entry.path.endswith("/") and depth < _DEEPEST:
            async for found in _streams(client, container, entry.path, depth + 1):
                yield found


def _entries(root: ET.Element) -> Iterator[Entry]:
    for it in root.iter("Contents"):
        yield Entry(it.findtext("Key", ""))
    for it in root.iter("CommonPrefixes"):
        shards = it.findtext("ShardCount", "")
        hours = it.findtext("RetentionPeriodHours", "")
        is_stream = shards.isdecimal()
        count = int(shards) if is_stream else None
        yield Entry(it.findtext("Prefix", ""), count, int(hours) if hours.isdecimal() else 0)


def _checked(answer: bytes) -> ET.Element:
    # An entity may expand to more than the memory holds; a listing has none.
    if b"<!DOCTYPE" in answer or b"<!ENTITY" in answer:
        raise V3ioAwayError("a listing has entities of its own")
    try:
        return ET.fromstring(answer)  # noqa: S314  # without entities there is nothing to expand
    except ET.ParseError as error:
        raise V3ioAwayError(f"a listing is no XML: {error}") from None


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """The shards and the retention of a stream."""

    shard_count: int
    retention_hours: int


@dataclass(frozen=True, slots=True)
class ShardRead:
    """The records of one read of a shard, where the next read begins, and how many records are behind it."""

    next_location: str
    behind_count: int
    records: Sequence[StreamRecord]


async def describe(client: V3ioClient, stream: StreamPath) -> StreamInfo:
    """Return how the stream was made. Raises V3ioRefusedError where there is none."""
    return await client.read("DescribeStream", stream.url_path, None, _info)


async def create(client: V3ioClient, stream: StreamPath, shard_count: int, retention_hours: int) -> None:
    """Create a stream. Raises V3ioRefusedError where there is one."""
    body = {"ShardCount": shard_count, "RetentionPeriodHours": retention_hours}
    await client.write("CreateStream", stream.url_path, body, nothing)


async def delete(client: V3ioClient, stream: StreamPath) -> None:
    """Delete a stream's shards, the state of its groups, then itself.

    Raises V3ioRefusedError where there is none.
    """
    # Only an empty directory can be deleted, and a stream is one.
    for entry in await list_folder(client, stream.container, f"{stream.path}/"):
        await client.request("DELETE", f"/{quote(stream.container)}/{quote(entry.path)}")
    await client.request("DELETE", stream.url_path)


async def put(client: V3ioClient, stream: StreamPath, records: Sequence[NewRecord]) -> list[tuple[int, int]]:
    """Put records; return shard and sequence number of each.

    Raises V3ioRefusedError where one isn't taken; others may be.
    """
    body = {"Records": [record.encoded() for record in records]}
    entries = await client.write(
        "PutRecords", stream.url_path, body, lambda fields: list(map(_put, fields["Records"]))
    )
    for entry in entries:
        if isinstance(entry, str):
            raise V3ioRefusedError(f"{client.access}: {stream} takes no such record: {entry}", 400, entry)
    return [entry for entry in entries if not isinstance(entry, str)]


async def seek(client: V3ioClient, stream: StreamPath, shard: int, kind: str, **at: int) -> str:
    """Return a location in a shard. `kind` is EARLIEST, LATEST, SEQUENCE or TIME, with the numbers it takes.

    Raises V3ioRefusedError where there is no shard yet, and with a number that it doesn't have.
    """
    body = {"Type": kind, **at}
    return await client.read(
        "SeekShard", stream.item_path(shard), body, lambda fields: str(fields["Location"])
    )


async def get(client: V3ioClient, stream: StreamPath, shard: int, location: str, limit: int) -> ShardRead:
    """Read at most `limit` records from a location on. Raises V3ioRefusedError where that is gone."""
    body = {"Location": location, "Limit": limit}
    return await client.read("GetRecords", stream.item_path(shard), body, _fetched)


def _info(fields: Mapping[str, Any]) -> StreamInfo:
    count = int(fields["ShardCount"])
    # Shares are cut, and dead letters are spread, by this number.
    if count < 1:
        raise ValueError(count)
    return StreamInfo(count, int(fields["RetentionPeriodHours"]))


def _put(entry: Mapping[str, Any]) -> tuple[int, int] | str:
    """Return the shard and sequence number of a record that was put, or why it wasn't."""
    if "SequenceNumber" in entry:
        return int(entry["ShardId"]), int(entry["SequenceNumber"])
    return str(entry.get("ErrorMessage", entry["ErrorCode"]))


def _fetched(fields: Mapping[str, Any]) -> ShardRead:
    records = [decode_record(entry) for entry in fields["Records"] or ()]
    return ShardRead(str(fields["NextLocation"]), int(fields.get("RecordsBehindLatest", 0)), records)
