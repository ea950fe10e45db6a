"""Explicit acks of a stream's records: which count, and what is committed by them."""

import asyncio
from pathlib import Path

import pytest
from running_trigger import running, written
from servers import SharedV3io
from shard_scene import ShardScene
from worker_bench import until

EXPLICIT = {"workerAllocationMode": "static", "sequenceNumberCommitInterval": "50ms"}
ACKS_WHEN_TOLD = """
    import nuclio_sdk

    waiting = []

    async def handler(context, event):
        waiting.append(nuclio_sdk.QualifiedOffset.from_event(event))
        write(int(event.body))
        if int(event.body) == 10:
            first = waiting[0]
            await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset("/elsewhere", 0, 11))
            await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset(first.topic, 7, 11))
            write("told", "told")
            wait_for("go")
            for place in reversed(waiting):
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset({topic}, 0, place.offset))
        response = nuclio_sdk.Response()
        response.ensure_no_ack()
        return response
"""


@pytest.fixture
def scene(v3io: SharedV3io, tmp_path: Path) -> ShardScene:
    return ShardScene(v3io.url, tmp_path)


@pytest.mark.full_but('enable-"/"', 'explicitOnly-"/"')
@pytest.mark.parametrize("topic", ["first.topic", '"/"', 'first.topic.strip("/")'])
@pytest.mark.parametrize("mode", ["enable", "explicitOnly"])
async def test_records_are_done_once_they_are_acked_whatever_the_stream_is_called(
    scene: ShardScene, mode: str, topic: str
) -> None:
    await scene.create()
    handler = ACKS_WHEN_TOLD.replace("{topic}", topic)
    scene.write(handler, **EXPLICIT, fields={"explicitAckMode": mode})
    await scene.put(11)
    async with running(scene.folder):
        await until((scene.folder / "told").exists)
        assert await scene.committed() in {
            None,
            0,
        }  # nor was the ack of another shard, or stream, one of these
        (scene.folder / "go").touch()
        await scene.until_committed(11)
    assert written(scene.folder) == list(range(11))


async def test_a_late_ack_of_a_lower_record_moves_nothing_back(scene: ShardScene) -> None:
    await scene.create()
    handler = """
        import nuclio_sdk

        async def handler(context, event):
            await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
            if event.offset == 5:
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset(event.topic, 0, 2))
            write(int(event.body))
    """
    scene.write(handler, **EXPLICIT, fields={"explicitAckMode": "explicitOnly"})
    await scene.put(5)
    async with running(scene.folder):
        await scene.until_committed(5)
        await asyncio.sleep(0.2)
        assert await scene.committed() == 5


async def test_acks_above_the_commit_outlive_their_member(scene: ShardScene) -> None:
    await scene.create()
    handler = """
        import nuclio_sdk

        async def handler(context, event):
            write(int(event.body))
            if event.offset != 3:
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
    """
    scene.write(handler, **EXPLICIT, fields={"explicitAckMode": "explicitOnly"})
    await scene.put(6)
    async with running(scene.folder):
        await until(lambda: len(written(scene.folder)) == 6)
    assert await scene.committed() == 2
    async with running(scene.folder):
        await until(lambda: len(written(scene.folder)) == 7)
    assert written(scene.folder) == [*range(6), 2]
