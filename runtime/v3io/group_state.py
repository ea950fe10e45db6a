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
    """What the item held, and the condition on which it may be replaced by what follows from it."""

    sessions: tuple[SessionState, ...]
    condition: str


class StateItem:
    """The item of one group. All of it raises V3ioError; `read` and `remove` also StateError."""

    def __init__(self, client: V3ioClient, stream: StreamPath, group_name: str) -> None:
        self._client = client
        self._stream = stream
        self._path = stream.beside(state_name(group_name))

    async def read(self) -> GroupState:
        """Where there is no stream any more, its error: an item would be in the way of a new one."""
        item = await get_item(self._client, self._path, (_NANOSECONDS_NAME, _SECONDS_NAME, "state"))
        if item is None:
            await describe(self._client, self._stream)
        if item is None or "state" not in item:
            return GroupState((), "not(exists(state))")
        return GroupState(decode_state(str(item["state"])), _unchanged(item))

    async def replace(self, state: GroupState, sessions: tuple[SessionState, ...]) -> V3ioRefusedError | None:
        """None: done. An error: mostly somebody has written since. V3ioAwayError: it may have been done."""
        return await put_attributes(
            self._client, self._path, {"state": encode_state(sessions)}, state.condition
        )

    async def remove(self, member_id: str) -> None:
        """Take a session out, however often others write meanwhile."""
        for pause in backoff_seconds():
            state = await self.read()
            rest = tuple(it for it in state.sessions if it.member_id != member_id)
            if rest == state.sessions or await self.replace(state, rest) is None:
                return
            await asyncio.sleep(pause)


def _unchanged(item: Mapping[str, Any]) -> str:
    """Both: the nanoseconds alone may come again."""
    try:
        nanoseconds, seconds = item[_NANOSECONDS_NAME], item[_SECONDS_NAME]
    except KeyError as missing:
        raise V3ioAwayError(f"the group's state comes without {missing.args[0]}") from None
    return f"({_NANOSECONDS_NAME} == {nanoseconds}) AND ({_SECONDS_NAME} == {seconds})"
