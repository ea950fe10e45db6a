"""Streams of a web API, as a test wants them. Not in an event loop: each call has one of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from headrace.runtime.v3io import streams
from headrace.runtime.v3io.addresses import StreamPath, V3ioAccess
from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.group_format import SessionState, sequence_attribute, state_name
from headrace.runtime.v3io.group_state import StateItem
from headrace.runtime.v3io.items import get_item, put_attributes
from headrace.runtime.v3io.records import NewRecord

T = TypeVar("T")

CONTAINER, GROUP = "bigdata", "g"
QUICK = {"sessionTimeout": "3s", "heartbeatInterval": "200ms"}


class V3ioStreams:
    """Of one container, and one group."""

    def __init__(self, url: str) -> None:
        self.url = url

    def attributes(self, stream: str) -> dict[str, Any]:
        """Of a trigger that reads it, quick to notice others."""
        return {**self.place(stream), **QUICK}

    def place(self, stream: str) -> dict[str, Any]:
        """The attributes that say which stream it is."""
        place = {"containerName": CONTAINER, "streamPath": f"/{stream}", "consumerGroup": GROUP}
        return {"webApi": self.url, **place}

    def create(self, stream: str, shards: int) -> None:
        self._run(lambda client: streams.create(client, StreamPath(CONTAINER, stream), shards, 1))

    def put(self, stream: str, values: Sequence[bytes], shard: int | None = 0) -> list[tuple[int, int]]:
        """Shard and sequence number of each."""

        async def put(client: V3ioClient) -> list[tuple[int, int]]:
            place, found = StreamPath(CONTAINER, stream), list[tuple[int, int]]()
            for first in range(0, len(values), 1000):
                records = [NewRecord(value, shard=shard) for value in values[first : first + 1000]]
                found += await streams.put(client, place, records)
            return found

        return self._run(put)

    def committed(self, stream: str) -> Mapping[int, int]:
        """The sequence number of the last record that is done, by shard."""
        name = sequence_attribute(GROUP)

        async def committed(client: V3ioClient) -> dict[int, int]:
            place = StreamPath(CONTAINER, stream)
            count = (await streams.describe(client, place)).shard_count
            items = [await get_item(client, place.item_path(shard), (name,)) for shard in range(count)]
            return {shard: item[name] for shard, item in enumerate(items) if item and name in item}

        return self._run(committed)

    def sessions(self, stream: str) -> Sequence[SessionState]:
        """The group's members."""

        async def sessions(client: V3ioClient) -> Sequence[SessionState]:
            return (await StateItem(client, StreamPath(CONTAINER, stream), GROUP).read()).sessions

        return self._run(sessions)

    def write_state(self, stream: str, text: str) -> None:
        """Whatever the group's state was."""
        path = StreamPath(CONTAINER, stream).item_path(state_name(GROUP))
        self._run(lambda client: put_attributes(client, path, {"state": text}, "not(exists(nothing))"))

    def _run(self, work: Callable[[V3ioClient], Awaitable[T]]) -> T:
        async def with_client() -> T:
            async with V3ioClient(V3ioAccess(self.url)) as client:
                return await work(client)

        return asyncio.run(with_client())
