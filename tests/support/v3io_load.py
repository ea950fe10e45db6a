"""Records put into a stream at a steady rate, and what its group says meanwhile, through any outage."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from commits import Sample
from v3io_scene import GROUP, PLACE, TOPIC, V3ioScene

from headrace.runtime.v3io.addresses import V3ioAccess
from headrace.runtime.v3io.client import V3ioClient, V3ioError
from headrace.runtime.v3io.group_format import LAST_SEQUENCE, SessionState, sequence_attribute
from headrace.runtime.v3io.group_state import StateItem
from headrace.runtime.v3io.items import get_item
from headrace.runtime.v3io.records import NewRecord
from headrace.runtime.v3io.streams import put

_PUT_SECONDS = 0.05
_SAMPLE_SECONDS = 0.2
_CALL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class StateSample:
    """Sessions, as the state had them at a moment between `asked_ns` and `ns`."""

    asked_ns: int
    ns: int
    sessions: Sequence[SessionState]


class Watch:
    """What the group has said so far."""

    def __init__(self) -> None:
        self.commits: list[Sample] = []
        self.states: list[StateSample] = []

    def doubly_owned(self) -> list[tuple[StateSample, int]]:
        """Shards that two sessions had at a time."""
        found = []
        for sample in self.states:
            shards = [shard for session in sample.sessions for shard in session.shards]
            found += [(sample, shard) for shard in set(shards) if shards.count(shard) > 1]
        return found


@contextmanager
def producing(scene: V3ioScene, shard_count: int, rate: float) -> Iterator[None]:
    """So many a second, until it is left. Only what the server has acknowledged counts as produced."""

    async def produce(client: V3ioClient, is_over: Callable[[], bool]) -> None:
        began, count = time.monotonic(), 0
        while not is_over():
            due = int((time.monotonic() - began) * rate)
            records = [NewRecord(b"x", shard=at % shard_count) for at in range(count, min(due, count + 500))]
            if records:
                scene.note(await put(client, PLACE, records))
                count += len(records)
            await asyncio.sleep(_PUT_SECONDS)

    with _in_thread(scene, produce):
        yield


@contextmanager
def watched(scene: V3ioScene, shard_count: int) -> Iterator[Watch]:
    """Commits and sessions, several times a second."""
    watch = Watch()

    async def look(client: V3ioClient, is_over: Callable[[], bool]) -> None:
        item = StateItem(client, PLACE, GROUP)
        while not is_over():
            asked_ns = time.monotonic_ns()
            state = await item.read()
            watch.states.append(StateSample(asked_ns, time.monotonic_ns(), state.sessions))
            committed = await _committed(client, shard_count)
            watch.commits.append(Sample(time.monotonic_ns(), committed))
            await asyncio.sleep(_SAMPLE_SECONDS)

    with _in_thread(scene, look):
        yield watch


def shard_ends(scene: V3ioScene, shard_count: int) -> dict[tuple[str, int], int]:
    """Offsets behind the last record of each shard that has any: what was put, acknowledged or not."""

    async def asked(client: V3ioClient) -> dict[tuple[str, int], int]:
        paths = [PLACE.item_path(shard) for shard in range(shard_count)]
        items = [await get_item(client, path, (LAST_SEQUENCE,)) for path in paths]
        return {(TOPIC, at): it[LAST_SEQUENCE] + 1 for at, it in enumerate(items) if it}

    return scene.ask(asked)


async def _committed(client: V3ioClient, shard_count: int) -> dict[tuple[str, int], int]:
    name = sequence_attribute(GROUP)
    paths = [PLACE.item_path(shard) for shard in range(shard_count)]
    items = await asyncio.gather(*(get_item(client, path, (name,)) for path in paths))
    return {(TOPIC, at): it[name] + 1 for at, it in enumerate(items) if it and name in it}


@contextmanager
def _in_thread(
    scene: V3ioScene, work: Callable[[V3ioClient, Callable[[], bool]], Awaitable[None]]
) -> Iterator[None]:
    over = threading.Event()
    failures: list[BaseException] = []

    async def worked() -> None:
        while not over.is_set():
            try:
                access = V3ioAccess(scene.url)
                async with V3ioClient(access, call_seconds=_CALL_SECONDS) as client:
                    await work(client, over.is_set)
            except V3ioError:
                await asyncio.sleep(_SAMPLE_SECONDS)  # it is away, and comes back

    def run() -> None:
        try:
            asyncio.run(worked())
        except BaseException as failure:  # raised where it is seen
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for failure in failures:
        raise failure
