"""Records that fail, batches, and streams that aren't what they were."""

import asyncio
from pathlib import Path

import pytest
from running_trigger import made, running, written
from servers import SharedV3io
from shard_scene import ShardScene
from v3io_streams import CONTAINER
from worker_bench import until

from headrace.runtime.embedded.v3io.server import EmbeddedV3io
from headrace.runtime.errors import HeadraceError
from headrace.runtime.v3io import streams
from headrace.runtime.v3io.addresses import StreamPath, V3ioAccess
from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.group_format import sequence_attribute
from headrace.runtime.v3io.items import get_item, put_attributes
from headrace.triggers.v3io.dead_letters import ORIGIN

WRITES = """
    def handler(context, event):
        write(int(event.body))
"""
FAILS_AT_3 = """
    def handler(context, event):
        write(int(event.body))
        assert int(event.body) != 3
"""


@pytest.fixture
def scene(v3io: SharedV3io, tmp_path: Path) -> ShardScene:
    return ShardScene(v3io.url, tmp_path)


def client_of(scene: ShardScene) -> V3ioClient:
    return V3ioClient(V3ioAccess(scene.streams.url))


def place_of(scene: ShardScene) -> StreamPath:
    return StreamPath(CONTAINER, scene.stream)


async def test_a_record_that_fails_for_good_halts_its_shard_alone(scene: ShardScene) -> None:
    await scene.create(shards=2)
    scene.write(FAILS_AT_3, onFailure={"maxAttempts": 2, "backoff": "0s"})
    await scene.put(6, shard=0)
    async with running(scene.folder) as it:
        await until(lambda: any("halted" in problem for problem in it.trigger.problems()))
        await scene.put(2, shard=1)
        await until(lambda: written(scene.folder) == [0, 1, 2, 3, 3, 6, 7])
    assert await scene.committed(0) == 3
    assert await scene.committed(1) == 2


async def test_a_dead_letter_has_the_bytes_and_says_where_it_came_from(scene: ShardScene) -> None:
    await scene.create()
    dead = f"{scene.stream}-dead"
    await asyncio.to_thread(scene.streams.create, dead, 3)
    failing = {"maxAttempts": 2, "backoff": "0s", "then": "deadLetter", "deadLetterTopic": dead}
    scene.write(FAILS_AT_3, onFailure=failing)
    await scene.put(6)
    async with running(scene.folder):
        await scene.until_committed(6)
    async with client_of(scene) as client:
        stream = StreamPath(CONTAINER, dead)
        location = await streams.seek(client, stream, 0, "EARLIEST")
        found = await streams.get(client, stream, 0, location, 10)
    (record,) = found.records
    assert record.data == b"3"
    assert ORIGIN.unpack(record.client_info) == (0, 4, 2)


async def test_a_dead_letter_stream_that_is_missing_holds_up_the_shard_and_is_named(
    scene: ShardScene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.create()
    dead = f"{scene.stream}-dead"
    failing = {"maxAttempts": 1, "then": "deadLetter", "deadLetterTopic": dead, "maxBackoff": "1s"}
    scene.write(FAILS_AT_3, onFailure=failing)
    await scene.put(6)
    async with running(scene.folder):
        await until(lambda: f"there is no dead-letter stream bigdata/{dead}" in caplog.text)
        await asyncio.to_thread(scene.streams.create, dead, 1)
        await scene.until_committed(6)


async def test_batches_hold_records_of_a_shard_in_order_and_keep_their_boundaries(scene: ShardScene) -> None:
    await scene.create()
    handler = """
        def handler(context, events):
            write(" ".join(event.body.decode() for event in events), "batches")
            if events[0].offset == 1 and not exists("again"):
                write("", "again")
                raise ValueError("not yet")
    """
    batch = {"mode": "enable", "batchSize": 5, "timeout": "200ms"}
    scene.write(handler, onFailure={"backoff": "0s"}, fields={"batch": batch})
    await scene.put(12)
    async with running(scene.folder):
        await scene.until_committed(12)
    lines = (scene.folder / "batches").read_text().splitlines()
    assert lines[0] == lines[1] == "0 1 2 3 4"
    assert [int(word) for line in lines[1:] for word in line.split()] == list(range(12))


async def make_anew(scene: ShardScene) -> None:
    async with client_of(scene) as client:
        await streams.delete(client, place_of(scene))
        await streams.create(client, place_of(scene), 1, 1)


@pytest.mark.parametrize("count", [3, 30])
async def test_a_stream_that_was_made_anew_is_read_from_its_start(
    scene: ShardScene, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """Also where it has more records by then than were read of the old one."""
    await scene.create()
    scene.write(WRITES, sequenceNumberShardWaitInterval="50ms")
    await scene.put(10)
    async with running(scene.folder):
        await scene.until_committed(10)
        await make_anew(scene)
        await scene.put(count)
        await until(lambda: written(scene.folder)[-1:] == [9 + count])
        await scene.until_committed(count)
    assert written(scene.folder) == list(range(10 + count))
    assert "offset 11 was to come, and the stream was made anew" in caplog.text


async def test_what_was_read_of_the_old_stream_is_not_committed_on_the_new_one(
    scene: ShardScene, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
    def handler(context, event):
        while int(event.body) == 9 and exists("gate"):
            time.sleep(0.01)
        write(int(event.body))
    """
    await scene.create()
    (scene.folder / "gate").touch()
    scene.write(handler, pollingIntervalMs=3000, sequenceNumberCommitInterval="50ms")
    await scene.put(10)
    async with running(scene.folder):
        await scene.until_committed(9)
        await make_anew(scene)
        await scene.put(30)
        (scene.folder / "gate").unlink()
        await until(lambda: "commit failed (the stream was made anew)" in caplog.text)
        assert await scene.committed() is None
        await scene.until_committed(30)
    assert written(scene.folder) == list(range(40))


async def test_late_acks_of_a_stream_that_was_made_anew_settle_nothing_of_the_one_that_has_its_name(
    scene: ShardScene, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        import nuclio_sdk
        held = []

        async def handler(context, event):
            write(int(event.body))
            if int(event.body) < 10:
                held.append(nuclio_sdk.QualifiedOffset.from_event(event))
                return
            while held:
                await context.platform.explicit_ack(held.pop())
            await context.platform.explicit_ack(event)
    """
    await scene.create()
    scene.write(handler, workerAllocationMode="static", fields={"explicitAckMode": "explicitOnly"})
    await scene.put(10)
    async with running(scene.folder):
        await until(lambda: len(written(scene.folder)) == 10)
        await make_anew(scene)
        await scene.put(30)
        await scene.until_committed(30)
    assert written(scene.folder) == list(range(40))
    assert caplog.text.count("made anew or cut since") == 1


async def test_a_commit_of_others_that_is_further_is_never_moved_back(
    scene: ShardScene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.create()
    scene.write(WRITES, sequenceNumberCommitInterval="50ms")
    await scene.put(5)
    async with running(scene.folder):
        await scene.until_committed(5)
        async with client_of(scene) as client:
            path, name = place_of(scene).item_path(0), sequence_attribute("g")
            await put_attributes(client, path, {name: 100}, "__obj_type == 3")
        await scene.put(5)
        await until(lambda: len(written(scene.folder)) == 10)
        await until(lambda: "offset 101 is committed there" in caplog.text)
    async with client_of(scene) as client:
        assert await get_item(client, path, (name,)) == {name: 100}


async def test_a_group_whose_name_is_no_attribute_commits_under_another(
    scene: ShardScene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.create()
    scene.write(WRITES, consumerGroup="my-consumer-group")
    await scene.put(5)
    async with running(scene.folder):
        await until(lambda: len(written(scene.folder)) == 5)
    assert "keeps its offsets as my_x2d_consumer_x2d_group" in caplog.text
    async with client_of(scene) as client:
        name = sequence_attribute("my-consumer-group")
        assert await get_item(client, place_of(scene).item_path(0), (name,)) == {name: 5}
    async with running(scene.folder):
        await scene.put(1)
        await until(lambda: written(scene.folder) == list(range(6)))


async def test_a_key_that_is_not_the_servers_is_a_line(tmp_path: Path) -> None:
    async with EmbeddedV3io(access_key="right") as server:
        scene = ShardScene(server.url, tmp_path)
        scene.write(WRITES, fields={"secret": "wrong"})
        it = made(tmp_path)
        await it.start_workers()
        try:
            with pytest.raises(HeadraceError, match="401") as refused:
                await it.run()
        finally:
            await it.stop()
    assert "\n" not in str(refused.value)


async def test_a_state_that_nobody_can_read_is_named_and_waited_for(scene: ShardScene) -> None:
    await scene.create()
    scene.write(WRITES)
    path = place_of(scene).item_path("g-state.json")
    async with client_of(scene) as client:
        await put_attributes(client, path, {"state": "{"}, "not(exists(state))")
        await scene.put(1)
        async with running(scene.folder) as it:
            await until(lambda: any("it is no JSON" in problem for problem in it.trigger.problems()))
            await put_attributes(client, path, {"state": "{}"}, 'state == "{"')
            await until(lambda: written(scene.folder) == [0])
