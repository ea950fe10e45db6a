"""How far a consumer group is on each shard of a stream."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.runtime.errors import HeadraceError
from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.group.names import LAST_SEQUENCE, sequence_attribute
from headrace.runtime.v3io.group.sessions import SessionState, StateError
from headrace.runtime.v3io.group_state import StateItem
from headrace.runtime.v3io.items import get_item
from headrace.runtime.v3io.place import StreamPath
from headrace.runtime.v3io.streams import describe


class NoSuchV3ioGroupError(HeadraceError):
    """Nobody has been in it, and nothing was ever committed for it."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class ShardLag:
    """Sequence numbers: of the last record that is done, and of the last one there is; 0: none."""

    shard: int
    committed: int | None
    current: int
    member: str = ""

    @property
    def lag(self) -> int:
        """Records that are not done."""
        return max(0, self.current - (self.committed or 0))


async def read_lags(
    client: V3ioClient, stream: StreamPath, group: str
) -> tuple[Sequence[SessionState], Sequence[ShardLag]]:
    """Raises V3ioError, NoSuchV3ioGroupError where nobody was ever in the group."""
    sessions = await read_sessions(client, stream, group)
    owners = {shard: session.member_id for session in sessions for shard in session.shards}
    count = (await describe(client, stream)).shard_count
    lags = await asyncio.gather(
        *(_lag(client, stream, group, shard, owners.get(shard, "")) for shard in range(count))
    )
    if not sessions and all(lag.committed is None for lag in lags):
        raise NoSuchV3ioGroupError(f"stream {stream} at {client.access} has no group {group}")
    return sessions, lags


async def read_sessions(client: V3ioClient, stream: StreamPath, group: str) -> Sequence[SessionState]:
    """Those of its state, stale or not. Raises V3ioError, HeadraceError where that can't be read."""
    try:
        return (await StateItem(client, stream, group).read()).sessions
    except StateError as error:
        raise HeadraceError(f"the state of group {group} of {stream} can't be read: {error}") from None


async def _lag(client: V3ioClient, stream: StreamPath, group: str, shard: int, member: str) -> ShardLag:
    name = sequence_attribute(group)
    item = await get_item(client, stream.beside(shard), (name, LAST_SEQUENCE)) or {}
    return ShardLag(shard, item.get(name), item.get(LAST_SEQUENCE, 0), member)
