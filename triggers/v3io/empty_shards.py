"""Shards that had no record when the group first looked, noted in the item that holds the group's state.

The first record of a shard makes it. With seekTo latest, a shard that is made while no replica runs would
look as if its records had been there before the group, and they would be skipped.
"""

from collections.abc import Collection

from headrace.runtime.v3io.addresses import StreamPath
from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.group_format import state_name
from headrace.runtime.v3io.items import get_item, put_attributes


def _name(shard: int) -> str:
    return f"headrace_awaits_{shard}"


class EmptyShards:
    """The notes of one group. All methods raise V3ioError."""

    def __init__(self, client: V3ioClient, stream: StreamPath, group_name: str) -> None:
        self._client = client
        self._path = stream.item_path(state_name(group_name))

    async def add(self, shards: Collection[int]) -> None:
        """Note that these shards have no record."""
        # Members write their sessions into the same item: only the attributes of these notes are touched.
        # Only what isn't noted yet is written: each write changes the item's mtime, on which other members'
        # writes depend, so theirs would be refused.
        if missing := set(shards) - await self.among(shards):
            names = {_name(shard): 1 for shard in sorted(missing)}
            # A member gets shards after it has written the state. Where that is gone, so is the stream, and a
            # new item would be in the way of its successor.
            if refused := await put_attributes(self._client, self._path, names, "exists(state)"):
                raise refused

    async def among(self, shards: Collection[int]) -> set[int]:
        """Return which of these shards had no record once."""
        if not shards:
            return set()
        item = await get_item(self._client, self._path, [_name(shard) for shard in shards]) or {}
        return {shard for shard in shards if _name(shard) in item}
