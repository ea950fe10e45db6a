"""The offsets of a consumer group of a stream: how far it is on each shard, and moving it elsewhere."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from headrace.runtime.errors import HeadraceError, UsageError
from headrace.runtime.v3io.addresses import StreamPath
from headrace.runtime.v3io.client import V3ioClient, V3ioRefusedError
from headrace.runtime.v3io.group_format import (
    LAST_SEQUENCE,
    SessionState,
    StateError,
    sequence_attribute,
    text_attribute,
)
from headrace.runtime.v3io.group_state import StateItem
from headrace.runtime.v3io.items import SHARD, Attributes, get_item, put_attributes
from headrace.runtime.v3io.streams import describe, get, seek


class NoSuchV3ioGroupError(HeadraceError):
    """A group that nobody has been in, and that nothing was ever committed for."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class ShardLag:
    """The sequence numbers of a shard's last record that is done, and of the last one there is; 0: none."""

    shard: int
    committed: int | None
    current: int
    member: str = ""

    @property
    def lag(self) -> int:
        """The number of records that are not done."""
        return max(0, self.current - (self.committed or 0))


async def read_lags(
    client: V3ioClient, stream: StreamPath, group: str
) -> tuple[Sequence[SessionState], Sequence[ShardLag]]:
    """Return the group's sessions, and its lag on each shard.

    Raises V3ioError, NoSuchV3ioGroupError where nobody was ever in the group.
    """
    sessions = await read_sessions(client, stream, group)
    owners = {shard: session.member_id for session in sessions for shard in session.shards}
    count = (await describe(client, stream)).shard_count
    lags = await asyncio.gather(
        *(_lag(client, stream, group, shard, owners.get(shard, "")) for shard in range(count))
    )
    # There is no list of groups: one that has neither members nor commits may just as well be a typing error.
    if not sessions and all(lag.committed is None for lag in lags):
        raise NoSuchV3ioGroupError(f"stream {stream} at {client.access} has no group {group}")
    return sessions, lags


async def read_sessions(client: V3ioClient, stream: StreamPath, group: str) -> Sequence[SessionState]:
    """Return the sessions of the group's state, stale or not.

    Raises V3ioError, HeadraceError where the state can't be read.
    """
    try:
        return (await StateItem(client, stream, group).read()).sessions
    except StateError as error:
        raise HeadraceError(f"the state of group {group} of {stream} can't be read: {error}") from None


async def _lag(client: V3ioClient, stream: StreamPath, group: str, shard: int, member: str) -> ShardLag:
    name = sequence_attribute(group)
    # A shard that no record has made yet has no item: nothing is committed of it, and nothing is left to do.
    item = await get_item(client, stream.item_path(shard), (name, LAST_SEQUENCE)) or {}
    return ShardLag(shard, item.get(name), item.get(LAST_SEQUENCE, 0), member)


Target: TypeAlias = Literal["earliest", "latest"] | int | datetime
"""An end, the sequence number of the next record, or the first record at or after a time (aware)."""


class V3ioGroupHasMembersError(HeadraceError):
    """A group that has members: they would go on from where they are, and commit over what is written."""

    exit_code = 5


@dataclass(frozen=True, slots=True)
class ShardMove:
    """The sequence number of a shard's next record, before and after; `before` is None without a commit."""

    shard: int
    before: int | None
    after: int


async def seek_group(  # noqa: PLR0913, PLR0917  # who, and where to
    client: V3ioClient,
    stream: StreamPath,
    group: str,
    shards: Sequence[int],
    to: Target,
    stale_after_seconds: float,
) -> list[ShardMove]:
    """Have the group go on at `to` in these shards, or all; those without a record stay as they are.

    What Headrace had noted beside the old offsets (acks, attempts, plans) is void. Raises
    V3ioGroupHasMembersError, UsageError, V3ioError.
    """
    count = (await describe(client, stream)).shard_count
    if wrong := [shard for shard in shards if shard >= count]:
        raise UsageError(f"stream {stream} has shards 0 to {count - 1}: not {wrong[0]}")
    now = time.time_ns()
    sessions = await read_sessions(client, stream, group)
    # Stale sessions don't count: their members are dead, and would notice before they commit anything.
    if alive := [it.member_id for it in sessions if now - it.heartbeat_ns < stale_after_seconds * 1e9]:
        raise V3ioGroupHasMembersError(
            f"group {group} has members ({', '.join(alive)}): stop them first; they would commit over it"
        )
    moves = [await _move(client, stream, group, shard, to) for shard in shards or range(count)]
    return [move for move in moves if move is not None]


async def _move(
    client: V3ioClient, stream: StreamPath, group: str, shard: int, to: Target
) -> ShardMove | None:
    path, name = stream.item_path(shard), sequence_attribute(group)
    item = await get_item(client, path, (name, LAST_SEQUENCE))
    if item is None:
        # No record has made the shard yet: there is nowhere to write to, and nothing to skip.
        return None
    after = await _sequence(client, stream, shard, to, int(item.get(LAST_SEQUENCE, 0)))
    # The attribute has the last record that is done, which is one below the next.
    values: Attributes = {name: after - 1, text_attribute(group): ""}
    # Unlike a member's commit this may move the offset back: it only asks that the shard is still there.
    if refused := await put_attributes(client, path, values, f"__obj_type == {SHARD}"):
        raise refused
    return ShardMove(shard, item[name] + 1 if name in item else None, after)


async def _sequence(client: V3ioClient, stream: StreamPath, shard: int, to: Target, last: int) -> int:
    """Return the sequence number of the record to go on with."""
    if to == "latest":
        return last + 1
    if isinstance(to, int):
        return await _checked_sequence(client, stream, shard, to, last)
    if to == "earliest":
        location = await seek(client, stream, shard, "EARLIEST")
    else:
        # By way of microseconds: a float has 53 bits, which nanoseconds since 1970 don't fit into.
        seconds, nanoseconds = divmod(int(to.timestamp() * 1_000_000) * 1000, 1_000_000_000)
        location = await seek(client, stream, shard, "TIME", TimestampSec=seconds, TimestampNSec=nanoseconds)
    # A location is opaque: what the sequence number there is, only the record tells.
    found = await get(client, stream, shard, location, 1)
    return found.records[0].sequence if found.records else last + 1


async def _checked_sequence(
    client: V3ioClient, stream: StreamPath, shard: int, sequence: int, last: int
) -> int:
    try:
        # The server is asked, as it alone knows what retention has left. A seek changes nothing there.
        await seek(client, stream, shard, "SEQUENCE", StartingSequenceNumber=sequence)
    except V3ioRefusedError as refused:
        what = f"shard {shard} of {stream} has records up to {last}, and none to go on with at {sequence}"
        raise UsageError(f"{what}: {refused.reason}") from None
    return sequence
