"""Commits of one shard, on a web API that is played, but for what its conditions mean."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headrace.runtime.embedded.v3io.language.evaluation import holds
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.offset_store import CommitRefusedError
from headrace.runtime.v3io.addresses import StreamPath
from headrace.runtime.v3io.client import V3ioRefusedError
from headrace.runtime.v3io.group_format import INODE, LAST_SEQUENCE, sequence_attribute
from headrace.runtime.v3io.items import SHARD, decode_attributes, encode_attributes
from headrace.triggers.v3io.shard_offsets import ShardOffsets

KEY = PartitionKey("s", 0)
DONE = sequence_attribute("g")


class WebApi:
    """It has one shard, with records up to 20."""

    def __init__(self) -> None:
        self.shard: dict[str, Any] = {"__obj_type": SHARD, LAST_SEQUENCE: 20, INODE: 7}

    async def read(self, _: str, __: str, ___: object, understood: Callable[[Any], Any]) -> Any:
        return understood({"Item": encode_attributes(self.shard)})

    async def write(self, _: str, __: str, body: Mapping[str, Any], ___: object) -> None:
        if not holds(body["ConditionExpression"], self.shard.get):
            raise V3ioRefusedError("refused", 400, "the condition does not hold")
        self.shard |= decode_attributes(body["Item"])


@pytest.fixture
def api() -> WebApi:
    return WebApi()


@pytest.fixture
def recreated() -> list[PartitionKey]:
    """Shards that a commit has found made anew."""
    return []


@pytest.fixture
def offsets(api: WebApi, recreated: list[PartitionKey]) -> ShardOffsets:
    client: Any = api
    return ShardOffsets(client, StreamPath.parse("bigdata/s"), "g", lambda: 1, recreated.append)


async def test_a_commit_never_takes_the_place_of_one_that_is_further(
    api: WebApi, offsets: ShardOffsets
) -> None:
    assert await offsets.write({KEY: (10, "")}, {}) == {}
    assert await offsets.write({KEY: (10, "")}, {}) == {}, "the same again"
    with pytest.raises(CommitRefusedError, match="offset 10 is committed there, by another member"):
        await offsets.write({KEY: (6, "")}, {})
    assert api.shard[DONE] == 9


async def test_a_commit_of_what_the_shard_has_not_is_refused(api: WebApi, offsets: ShardOffsets) -> None:
    with pytest.raises(CommitRefusedError, match="takes no commit"):
        await offsets.write({KEY: (22, "")}, {})
    assert DONE not in api.shard


async def test_a_shard_that_was_made_anew_takes_no_commit_of_the_one_before(
    api: WebApi, offsets: ShardOffsets, recreated: list[PartitionKey]
) -> None:

    state = await offsets.read(KEY.partition)
    assert state is not None
    offsets.expect({KEY: state})
    offsets.begin(KEY)
    api.shard[INODE] = 8
    with pytest.raises(CommitRefusedError, match="made anew"):
        await offsets.write({KEY: (10, "")}, {})
    assert recreated == [KEY]
    assert DONE not in api.shard
