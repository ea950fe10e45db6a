"""The item that holds a group's state: read, and replaced where nobody has written it since."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.runtime.v3io.addresses import StreamPath
from headrace.runtime.v3io.client import V3ioAwayError, V3ioClient, V3ioRefusedError
from headrace.runtime.v3io.group_format import SessionState, decode_state, encode_state, state_name
from headrace.runtime.v3io.items import get_item, put_attributes
from headrace.runtime.v3io.retry import backoff_seconds
from headrace.runtime.v3io.streams import describe

_SECONDS_NAME, _NANOSECONDS_NAME = "__mtime_secs", "__mtime_nsecs"


@dataclass(frozen=True, slots=True)
class GroupState:
    """The sessions that the item held, and the condition on which others may replace them."""

    sessions: tuple[SessionState, ...]
    condition: str


class StateItem:
    """The item of one group. All methods raise V3ioError; `read` and `remove` also StateError."""

    def __init__(self, client: V3ioClient, stream: StreamPath, group_name: str) -> None:
        self._client = client
        self._stream = stream
        self._path = stream.item_path(state_name(group_name))

    async def read(self) -> GroupState:
        """Return what the item holds; nothing where there is none yet.

        Raises V3ioRefusedError where there is no stream any more: a new item would be in the way of its
        successor.
        """
        item = await get_item(self._client, self._path, (_NANOSECONDS_NAME, _SECONDS_NAME, "state"))
        if item is None:
            # No item is a group without members, or no stream: a description tells which.
            await describe(self._client, self._stream)
        if item is None or "state" not in item:
            # Of several first members that write at once, the condition lets one win. The others read again.
            return GroupState((), "not(exists(state))")
        return GroupState(decode_state(str(item["state"])), _unchanged(item))

    async def replace(self, state: GroupState, sessions: tuple[SessionState, ...]) -> V3ioRefusedError | None:
        """Write `sessions` in the place of `state`; return None where that is done, else the refusal.

        A refusal mostly means that another member has written since. V3ioAwayError: it may have been done.
        """
        return await put_attributes(
            self._client, self._path, {"state": encode_state(sessions)}, state.condition
        )

    async def remove(self, member_id: str) -> None:
        """Remove a member's session, however often others write meanwhile."""
        # Others renew their sessions in the same item meanwhile, so the write may be refused again and again.
        for pause in backoff_seconds():
            state = await self.read()
            rest = tuple(it for it in state.sessions if it.member_id != member_id)
            if rest == state.sessions or await self.replace(state, rest) is None:
                return
            await asyncio.sleep(pause)


def _unchanged(item: Mapping[str, Any]) -> str:
    """Return the condition that nobody has written since: by both parts of mtime, of which one may recur."""
    try:
        nanoseconds, seconds = item[_NANOSECONDS_NAME], item[_SECONDS_NAME]
    except KeyError as missing:
        raise V3ioAwayError(f"the group's state comes without {missing.args[0]}") from None
    return f"({_NANOSECONDS_NAME} == {nanoseconds}) AND ({_SECONDS_NAME} == {seconds})"
