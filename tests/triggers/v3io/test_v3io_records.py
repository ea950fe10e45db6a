"""Where a shard is read from, in which order, and what is committed of it."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from running_trigger import running, written
from servers import SharedV3io
from shard_scene import ShardScene
from worker_bench import until

from headrace.runtime.embedded.v3io.server import EmbeddedV3io

WRITES = """
    def handler(context, event):
        write(int(event.body))
"""


@pytest.fixture
def scene(v3io: SharedV3io, tmp_path: Path) -> ShardScene:
    return ShardScene(v3io.url, tmp_path)


@pytest.mark.parametrize(("seek_to", "expected"), [("earliest", range(110)), ("latest", range(100, 110))])
async def test_without_a_commit_seek_to_says_where_to_start(
    scene: ShardScene, seek_to: str, expected: range
) -> None:
    await scene.create()
    await scene.put(100)
    scene.write(WRITES, seekTo=seek_to)
    async with running(scene.folder) as it:
        await until(lambda: it.trigger.problems() == [])
        await scene.put(10)
        await until(lambda: len(written(scene.folder)) == len(expected))
    assert written(scene.folder) == list(expected)


async def test_the_first_record_of_a_shard_is_never_missed(scene: ShardScene) -> None:
    await scene.create(shards=4)
    scene.write(WRITES, seekTo="latest", sequenceNumberShardWaitInterval="50ms")
    async with running(scene.folder) as it:
        await until(lambda: it.trigger.problems() == [])
        await scene.put(1, shard=2)
        await until(lambda: written(scene.folder) == [0])
        await scene.put(1, shard=3)
        await until(lambda: written(scene.folder) == [0, 1])


async def test_a_shard_that_gets_its_first_record_while_no_replica_runs_is_read_from_it(
    scene: ShardScene,
) -> None:
    """Though seekTo is latest: the group was there before the record."""
    await scene.create(shards=2)
    scene.write(WRITES, seekTo="latest")
    await scene.put(1, shard=0)
    async with running(scene.folder) as it:
        await until(lambda: it.trigger.problems() == [])
        await scene.until_committed(1)
    await scene.put(2, shard=1)
    async with running(scene.folder):
        await until(lambda: written(scene.folder) == [1, 2])


async def test_where_a_shard_began_is_kept_even_if_nothing_was_done_since(scene: ShardScene) -> None:
    """Else `latest` would be asked again, and skip what came meanwhile."""
    await scene.create()
    await scene.put(5)
    scene.write(WRITES, seekTo="latest")
    async with running(scene.folder) as it:
        await until(lambda: it.trigger.problems() == [])
        await scene.until_committed(5)
    await scene.put(3)
    async with running(scene.folder):
        await until(lambda: written(scene.folder) == [5, 6, 7])


async def test_records_of_a_shard_are_handled_one_at_a_time_in_order(scene: ShardScene) -> None:
    await scene.create()
    handler = """
        def handler(context, event):
            assert not exists("in it")
            write("", "in it")
            write(int(event.body))
            (FOLDER / "in it").unlink()
    """
    scene.write(handler, fields={"numWorkers": 3}, readBatchSize=7)
    await scene.put(200)
    async with running(scene.folder):
        await until(lambda: len(written(scene.folder)) == 200)
    assert written(scene.folder) == list(range(200))


async def test_what_is_done_is_committed_and_a_quiet_interval_writes_nothing(
    scene: ShardScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.create()
    scene.write(WRITES, sequenceNumberCommitInterval="50ms")
    await scene.put(10)
    async with running(scene.folder) as it:
        await scene.until_committed(10)
        store = it.trigger._stream.offsets  # type: ignore[attr-defined]  # the trigger's own
        writes: list[Any] = []
        monkeypatch.setattr(store, "write", lambda *given: writes.append(given))
        await asyncio.sleep(0.3)
        assert writes == []


async def test_a_commit_beats_seek_to_and_a_drained_shard_goes_on(
    scene: ShardScene,
) -> None:
    await scene.create()
    scene.write(WRITES)
    await scene.put(50)
    async with running(scene.folder):
        await until(lambda: len(written(scene.folder)) == 50)
    assert await scene.committed() == 50
    scene.write(WRITES, seekTo="latest")
    await scene.put(5)
    async with running(scene.folder):
        await until(lambda: len(written(scene.folder)) == 55)
    async with running(scene.folder) as it:
        await until(lambda: it.trigger.problems() == [])
        await scene.put(1)
        await until(lambda: len(written(scene.folder)) == 56)
    assert written(scene.folder) == list(range(56))


async def test_a_shard_that_retention_has_passed_goes_on_with_what_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, folder = tmp_path / "data", tmp_path / "f"
    folder.mkdir()
    async with EmbeddedV3io(data) as server:
        scene = ShardScene(server.url, folder)
        await scene.create()
        scene.write(WRITES)
        await scene.put(20)
        async with running(folder):
            await until(lambda: len(written(folder)) == 20)
        await scene.put(30)
    age(data, below=41)
    async with EmbeddedV3io(data) as server:
        scene.streams.url = server.url
        scene.write(WRITES)
        async with running(folder):
            await until(lambda: written(folder)[-1] == 49)
    assert written(folder) == [*range(20), *range(40, 50)]
    assert "has expired" in caplog.text


def age(data: Path, below: int) -> None:
    """Let records come to be two hours old; the stream keeps them for one."""
    with closing(sqlite3.connect(data / "v3io.sqlite3")) as database, database:
        database.execute(
            "UPDATE records SET arrival_ns = arrival_ns - ? WHERE sequence < ?",
            (2 * 3600 * 10**9, below),
        )


async def test_a_window_of_acks_stays_uncommitted_and_comes_again(scene: ShardScene) -> None:
    await scene.create()
    scene.write(WRITES, ackWindowSize=10, sequenceNumberCommitInterval="50ms")
    async with running(scene.folder) as it:
        await scene.put(10)
        await until(lambda: len(written(scene.folder)) == 10)
        await asyncio.sleep(0.2)
        assert await scene.committed() in {None, 0}
        await scene.put(1)
        await scene.until_committed(1)
        assert it.trigger.problems() == []
    await scene.put(5)
    async with running(scene.folder):
        await scene.until_committed(6)
    assert written(scene.folder) == [*range(11), *range(1, 16)]


async def test_what_handlers_see_is_nuclios_event_and_more(scene: ShardScene, v3io: SharedV3io) -> None:
    await scene.create()
    handler = """
        def handler(context, event):
            said = (event.topic, event.path, event.shard_id, event.offset, event.trigger.kind, event.body,
                    event.headers, event.partition_key, event.client_info, event.key, event.num_shards)
            write(repr(said), "seen")
            write(event.timestamp.timestamp(), "time")
    """
    scene.write(handler)
    before = time.time()
    await asyncio.to_thread(put_with_everything, scene)
    async with running(scene.folder):
        await until((scene.folder / "time").exists)
    expected: tuple[object, ...] = (
        "/" + scene.stream,
        "",
        0,
        1,
        "v3io-stream",
        b"body",
        {},
        "key",
        b"info",
        b"key",
        0,
    )
    assert (scene.folder / "seen").read_text().strip() == repr(expected)
    seen = float((scene.folder / "time").read_text())
    assert abs(seen + utc_offset() - before) < 60


def utc_offset() -> float:
    """event.timestamp is naive UTC."""
    return time.localtime().tm_gmtoff


def put_with_everything(scene: ShardScene) -> None:
    from headrace.runtime.v3io import streams
    from headrace.runtime.v3io.addresses import StreamPath, V3ioAccess
    from headrace.runtime.v3io.client import V3ioClient
    from headrace.runtime.v3io.records import NewRecord

    async def put() -> None:
        async with V3ioClient(V3ioAccess(scene.streams.url)) as client:
            record = NewRecord(b"body", "key", b"info", 0)
            await streams.put(client, StreamPath("bigdata", scene.stream), [record])

    asyncio.run(put())
