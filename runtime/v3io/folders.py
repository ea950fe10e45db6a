"""What lies in a container: folders, of which some are streams, and what streams are made of."""

import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.errors import V3ioAwayError
from headrace.runtime.v3io.place import StreamPath

_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """A path without a slash at the front; a folder's ends in one. What is no stream has no shards."""

    path: str
    shard_count: int | None = None
    retention_hours: int = 0


@dataclass(frozen=True, slots=True)
class FoundStream:
    """In a container."""

    place: StreamPath
    shard_count: int
    retention_hours: int


async def find_streams(client: V3ioClient, container: str) -> list[FoundStream]:
    """All of them, by name. Raises V3ioError."""
    return sorted([it async for it in _streams(client, container, "", 0)], key=lambda it: it.place.path)


async def list_folder(client: V3ioClient, container: str, prefix: str) -> list[Entry]:
    """One level deep. Raises V3ioRefusedError where there is no such folder."""
    found: list[Entry] = []
    marker = ""
    while True:
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
            place = StreamPath(container, entry.path.strip("/"))
            yield FoundStream(place, entry.shard_count, entry.retention_hours)
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
    if b"<!DOCTYPE" in answer or b"<!ENTITY" in answer:
        raise V3ioAwayError("a listing has entities of its own")
    try:
        return ET.fromstring(answer)  # noqa: S314  # without entities there is nothing to expand
    except ET.ParseError as error:
        raise V3ioAwayError(f"a listing is no XML: {error}") from None
