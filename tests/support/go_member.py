"""A member of another make: how v3io-go shares out shards, and a member of a scene's group that does so.

It matches lists of shards exactly, knows no shares but those lists, writes nothing into a session that it
doesn't know, commits without looking at what is committed, and leaves its session behind.
"""

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from v3io_scene import GROUP, PLACE, TOPIC, V3ioScene

from headrace.runtime.v3io.addresses import V3ioAccess
from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.group_format import SessionState, sequence_attribute, state_name
from headrace.runtime.v3io.group_state import StateItem
from headrace.runtime.v3io.items import SHARD, get_item, put_attributes
from headrace.runtime.v3io.streams import get, seek

Shards = tuple[int, ...]

HEARTBEAT_SECONDS = 0.3
_RETRY_SECONDS = 0.1
_POLL_SECONDS = 0.05


class RetentionError(Exception):
    """Another member holds what was its own: it has to start anew."""


def shard_groups(replica_count: int, shard_count: int) -> list[Shards]:
    """getShardGroups."""
    step = shard_count / replica_count
    ends = [int(number * step + 0.5) for number in range(replica_count + 1)]
    return [tuple(range(ends[at], ends[at + 1])) for at in range(replica_count)]


def assign_shards(groups: Sequence[Shards], sessions: Sequence[SessionState]) -> Shards | None:
    """assignShards, of a member that joins; None: there are no free groups."""
    if groups.count(()) != sum(not it.shards for it in sessions):
        return ()
    taken = {it.shards for it in sessions}
    return next((it for it in groups if it and it not in taken), None)


def refresh(
    sessions: Sequence[SessionState],
    own_id: str,
    retained: Shards | None,
    groups: Sequence[Shards],
    timeout_ns: int,
) -> tuple[list[SessionState], Shards] | None:
    """One heartbeat: what to write, and what is its own; None: nothing, and try again."""
    now_ns = time.time_ns()
    alive = [it for it in sessions if now_ns - it.heartbeat_ns < timeout_ns]
    for at, session in enumerate(alive):
        if session.member_id == own_id:
            alive[at] = replace(session, heartbeat_ns=now_ns)
            return alive, session.shards
    if retained is None:
        shards = assign_shards(groups, alive)
        if shards is None:
            return None
    else:
        if any(it.shards == retained for it in alive):
            raise RetentionError(own_id)
        shards = retained
    return [*alive, SessionState(own_id, now_ns, shards)], shards


class GoMember:
    """One, once it is run, until it is dead."""

    def __init__(
        self, scene: V3ioScene, number: int, replicas: int, shard_count: int, timeout: float
    ) -> None:
        self.id = f"go-{number:020}"
        self.number = number
        """Its processor's, in the history."""
        self.shards: Shards | None = None
        self._groups = shard_groups(replicas, shard_count)
        self._timeout_ns = int(timeout * 1e9)
        self._access = V3ioAccess(scene.url)
        self._history: Path = scene.folder / "history"

    async def run(self) -> None:
        """Until it is cancelled."""
        async with V3ioClient(self._access) as client, asyncio.TaskGroup() as tasks:
            item = StateItem(client, PLACE, GROUP)
            while True:
                before = self.shards
                is_done = await self._beat(client, item)
                if before is None and self.shards is not None:
                    for shard in self.shards:
                        tasks.create_task(self._consume(client, shard))
                await asyncio.sleep(HEARTBEAT_SECONDS if is_done else _RETRY_SECONDS)

    async def _beat(self, client: V3ioClient, item: StateItem) -> bool:
        state = await item.read()
        found = refresh(state.sessions, self.id, self.shards, self._groups, self._timeout_ns)
        if found is None:
            return False
        sessions, shards = found
        text = {"state": encoded(sessions)}
        if await put_attributes(client, PLACE.item_path(state_name(GROUP)), text, state.condition):
            return False
        self.shards = shards
        return True

    async def _consume(self, client: V3ioClient, shard: int) -> None:
        path, name = PLACE.item_path(shard), sequence_attribute(GROUP)
        while (item := await get_item(client, path, (name,))) is None:
            await asyncio.sleep(_POLL_SECONDS)
        at = {"StartingSequenceNumber": item[name] + 1} if name in item else {}
        location = await seek(client, PLACE, shard, "SEQUENCE" if at else "EARLIEST", **at)
        while True:
            fetched = await get(client, PLACE, shard, location, 64)
            location, last = fetched.next_location, 0
            for record in fetched.records:
                last = record.sequence
                self._note("START", shard, last)
                self._note("END", shard, last)
            if last:
                await put_attributes(client, path, {name: last}, f"__obj_type == {SHARD}")
            await asyncio.sleep(_POLL_SECONDS)

    def _note(self, what: str, shard: int, sequence: int) -> None:
        line = f"{what} {TOPIC} {shard} {sequence} 1 {self.number} {self.number} {time.monotonic_ns()}\n"
        with self._history.open("a") as file:
            file.write(line)


def encoded(sessions: Sequence[SessionState]) -> str:
    """As Go does it: all fields that its struct has, times in the local zone, with nine digits."""
    states = [
        {
            "member_id": it.member_id,
            "last_heartbeat_time": _local_time(it.heartbeat_ns),
            "shards": list(it.shards),
        }
        for it in sessions
    ]
    return json.dumps({"schema_version": "0.0.1", "session_states": states})


def _local_time(ns: int) -> str:
    moment = datetime.fromtimestamp(ns // 10**9).astimezone()
    zone = f"{moment:%z}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}{zone[:3]}:{zone[3:]}"


@contextmanager
def go_member(member: GoMember) -> Iterator[None]:
    """Lives while it is in here; then it is as dead as after a kill -9."""
    loop = asyncio.new_event_loop()
    failures: list[BaseException] = []
    task = loop.create_task(member.run())

    def run() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except BaseException as failure:  # raised where it is seen
            failures.append(failure)
        finally:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
    for failure in failures:
        raise failure
