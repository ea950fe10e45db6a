"""The functions of streams: create, update to more shards, describe."""

from aiohttp import web

from headrace.runtime.embedded.v3io.calls import FunctionCall, empty, json_answer
from headrace.runtime.embedded.v3io.errors import (
    invalid_shard_count,
    resource_in_use,
    resource_not_stream,
)
from headrace.runtime.embedded.v3io.nodes import Address, Node, NodeKind
from headrace.runtime.embedded.v3io.store import Store

_MAX_SHARDS = 4096
_MAX_HOURS = 366 * 24
_DEFAULT_HOURS = 24


def stream_at(store: Store, address: Address) -> Node:
    """Return the stream at an address. ApiError where there is none."""
    node = store.nodes.existing(address)
    if node.kind != NodeKind.STREAM:
        raise resource_not_stream()
    return node


class Streams:
    """The functions of streams, but for their records."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create(self, call: FunctionCall) -> web.Response:
        shard_count = call.whole("ShardCount", 1, _MAX_SHARDS)
        hours = call.whole("RetentionPeriodHours", 1, _MAX_HOURS, _DEFAULT_HOURS)
        nodes = self._store.nodes
        # A file or an item of that name is in the way as well.
        if nodes.find(call.address) is not None:
            raise resource_in_use()
        with self._store.database.transaction():
            stream = nodes.make(call.address, NodeKind.STREAM)
            nodes.touch(stream, shard_count=shard_count, retention_hours=hours)
        return empty()

    async def update(self, call: FunctionCall) -> web.Response:
        stream = stream_at(self._store, call.address)
        shard_count = call.whole("ShardCount", 1, _MAX_SHARDS)
        # Shards are never taken away: their records would be lost.
        if shard_count <= stream.shard_count:
            raise invalid_shard_count(shard_count, stream.shard_count)
        self._store.nodes.touch(stream, shard_count=shard_count)
        return empty()

    async def describe(self, call: FunctionCall) -> web.Response:
        stream = stream_at(self._store, call.address)
        return json_answer({"ShardCount": stream.shard_count, "RetentionPeriodHours": stream.retention_hours})
