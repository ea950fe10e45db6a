"""Iguazio's own Python clients, sync and async, against the embedded v3io server."""

import array
import inspect
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import v3io.aio.dataplane
import v3io.dataplane
import v3io.logger
from servers import SharedV3io

from headrace.runtime.embedded.v3io.server import EmbeddedV3io

NEVER = v3io.dataplane.RaiseForStatus.never


class Model:
    """A model of either client, whose calls are awaited."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)

        async def awaited(*given: Any, **named: Any) -> Any:
            result = call(*given, **named)
            return await result if inspect.isawaitable(result) else result

        return awaited


class Client:
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.stream, self.kv = Model(inner.stream), Model(inner.kv)
        self.object, self.container = Model(inner.object), Model(inner.container)


@pytest.fixture(params=["sync", "aio"])
async def published(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    server: SharedV3io = request.getfixturevalue("v3io")
    package = v3io.aio.dataplane if request.param == "aio" else v3io.dataplane
    logger = v3io.logger.Logger("ERROR")
    inner = package.Client(logger, endpoint=server.url, access_key="any")
    try:
        yield Client(inner)
    finally:
        closed = inner.close()
        if inspect.isawaitable(closed):
            await closed


async def test_a_stream_lives_and_is_deleted_with_its_groups(published: Client, folder: str) -> None:
    path, where = f"{folder}/s", {"container": "bigdata", "stream_path": f"{folder}/s"}
    assert (await published.stream.describe(**where, raise_for_status=NEVER)).status_code == 404
    assert (await published.stream.create(**where, shard_count=8)).status_code == 204
    again = await published.stream.create(**where, shard_count=8, raise_for_status=NEVER)
    assert (again.status_code, b"ResourceInUse" in again.body) == (409, True)
    await published.stream.update(**where, shard_count=16)
    output = (await published.stream.describe(**where)).output
    assert (output.shard_count, output.retention_period_hours) == (16, 24)
    for shard_id in range(8):
        records = [{"shard_id": shard_id, "data": f"data {shard_id}"}]
        await published.stream.put_records(**where, records=records)
    for group in range(3):
        await published.object.put(container="bigdata", path=f"{path}/cg{group}-state.json")
    deleted = await published.stream.delete(**where)
    assert deleted.status_code == 204
    assert (await published.stream.describe(**where, raise_for_status=NEVER)).status_code == 404
    assert (await published.stream.delete(**where, raise_for_status=[404])).status_code == 404


async def test_records_are_put_sought_and_read(published: Client, folder: str) -> None:
    where = {"container": "bigdata", "stream_path": f"{folder}/s"}
    await published.stream.create(**where, shard_count=4, retention_period_hours=1)
    records = [
        {"shard_id": 1, "data": "first"},
        {"shard_id": 1, "data": b"second", "client_info": bytearray(b"some info"), "partition_key": "k"},
        {"shard_id": 10, "data": "nowhere"},
        {"shard_id": 2, "data": "other"},
        {"data": "somewhere"},
    ]
    output = (await published.stream.put_records(**where, records=records)).output
    assert output.failed_record_count == 1
    assert [record.error_code is None for record in output.records] == [True, True, False, True, True]
    shard = {**where, "shard_id": 1}
    for seek_type, fields, found in [
        ("EARLIEST", {}, [b"first", b"second"]),
        ("SEQUENCE", {"starting_sequence_number": 2}, [b"second"]),
        ("SEQUENCE", {"starting_sequence_number": 3}, []),
        ("TIME", {"timestamp_sec": 1, "timestamp_nsec": 0}, [b"first", b"second"]),
        ("LATEST", {}, []),
    ]:
        location = (await published.stream.seek(**shard, seek_type=seek_type, **fields)).output.location
        got = (await published.stream.get_records(**shard, location=location, limit=10)).output
        assert [record.data for record in got.records] == found
        assert (got.records_behind_latest, got.msec_behind_latest) == (0, 0)
        if seek_type == "EARLIEST":
            first, second = got.records
            assert (first.client_info, first.partition_key) == (None, None)
            assert (second.client_info, second.partition_key) == (b"some info", "k")
            assert (first.sequence_number, second.sequence_number) == (1, 2)
    refused = await published.stream.seek(
        **shard, seek_type="SEQUENCE", starting_sequence_number=4, raise_for_status=NEVER
    )
    assert refused.status_code == 400


async def test_items_are_put_read_and_updated_under_conditions(published: Client, folder: str) -> None:
    where = {"container": "bigdata", "table_path": f"{folder}/table", "key": "louise"}
    item = {
        "age": 9,
        "pi": 3.14,
        "feature": "bunny ears",
        "male": False,
        "blob": b"\x00\xff",
        "ints": [1, 2, 3],
        "floats": array.array("d", [10.5, 20.5]),
        "now": datetime(2024, 5, 1, tzinfo=UTC),
    }
    await published.kv.put(**where, attributes=item)
    assert (await published.kv.get(**where)).output.item == {**item, "floats": [10.5, 20.5]}
    await published.kv.update(**where, attributes={"height": 130})
    await published.kv.update(**where, expression="age = age + 1; ints[1] = ints[1] * 2")
    names = ["__size", "age", "ints", "height", "missing"]
    found = (await published.kv.get(**where, attribute_names=names)).output.item
    assert found == {"__size": 0, "age": 10, "ints": [1, 4, 3], "height": 130}
    refused = await published.kv.put(
        **where, attributes={"age": 0}, condition="age > 10", raise_for_status=NEVER
    )
    assert refused.status_code == 400
    other = {"condition": "age > 10", "alternate_expression": "age = 11"}
    await published.kv.update(**where, expression="age = 12", **other)
    assert (await published.kv.get(**where, attribute_names=["age"])).output.item == {"age": 11}
    await published.kv.update(**where, expression="age = 12", **other)
    assert (await published.kv.get(**where, attribute_names=["age"])).output.item == {"age": 12}
    await published.kv.put(**where, attributes={"age": 1})
    assert (await published.kv.get(**where)).output.item == {"age": 1}


async def test_the_verifier_of_a_put_is_the_condition_of_the_next(published: Client, folder: str) -> None:
    where = {"container": "bigdata", "table_path": folder, "key": "g-state.json"}
    first = await published.kv.put(**where, attributes={"state": "a"}, condition="not(exists(state))")
    verifier = first.headers["X-v3io-transaction-verifier"]
    second = await published.kv.update(**where, attributes={"state": "b"}, condition=verifier)
    assert second.status_code == 200
    third = await published.kv.update(
        **where, attributes={"state": "c"}, condition=verifier, raise_for_status=NEVER
    )
    assert third.status_code == 400
    assert (await published.kv.get(**where)).output.item == {"state": "b"}


async def test_items_are_deleted_one_by_one(published: Client, folder: str) -> None:
    where = {"container": "bigdata", "table_path": f"{folder}/table", "key": "bob"}
    await published.kv.put(**where, attributes={"age": 42})
    await published.object.delete(container="bigdata", path=f"{folder}/table/bob")
    assert (await published.kv.get(**where, raise_for_status=NEVER)).status_code == 404
    await published.object.delete(container="bigdata", path=f"{folder}/table/")


@pytest.mark.parametrize("published", ["sync"], indirect=True)
async def test_the_sync_client_deletes_by_key(published: Client, folder: str) -> None:
    where = {"container": "bigdata", "table_path": folder, "key": "bob"}
    await published.kv.put(**where, attributes={"age": 42})
    assert (await published.kv.delete(**where)).status_code == 204


async def all_of(cursor: Any) -> list[dict[str, Any]]:
    found = cursor.all()
    items: list[dict[str, Any]] = await found if inspect.isawaitable(found) else found
    return items


async def test_a_cursor_finds_all_that_a_filter_lets_through(published: Client, folder: str) -> None:
    where = {"container": "bigdata", "table_path": f"{folder}/table"}
    for number in range(30):
        await published.kv.put(**where, key=f"key-{number}", attributes={"number": number})
    scanned = (await published.kv.scan(**where, filter_expression="number == 7")).output
    assert (scanned.last, [item["number"] for item in scanned.items]) == (True, [7])
    cursor = published.inner.kv.new_cursor
    assert len(await all_of(cursor(**where))) == 30
    assert len(await all_of(cursor(**where, limit=10))) == 10
    chosen = await all_of(cursor(**where, attribute_names=["number"], filter_expression="number > 24"))
    assert sorted(item["number"] for item in chosen) == [25, 26, 27, 28, 29]
    parts = [await all_of(cursor(**where, segment=one, total_segments=4)) for one in range(4)]
    assert sum(map(len, parts)) == 30


async def test_objects_are_put_appended_to_and_read(published: Client, folder: str) -> None:
    where = {"container": "bigdata", "path": f"{folder}/obj ect.txt"}
    assert (await published.object.get(**where, raise_for_status=NEVER)).status_code == 404
    for part in ("12345", "67890"):
        await published.object.put(**where, body=part, append=True)
    assert (await published.object.get(**where)).body == b"1234567890"
    assert (await published.object.get(**where, offset=4)).body == b"567890"
    assert (await published.object.get(**where, offset=4, num_bytes=3)).body == b"567"
    assert (await published.object.head(**where)).headers["Content-Length"] == "10"
    directory = await published.object.head(container="bigdata", path=folder)
    assert directory.headers["Content-Length"] == "0"
    await published.object.delete(**where)


async def test_directories_are_listed(published: Client, folder: str) -> None:
    for number in range(5):
        await published.object.put(container="bigdata", path=f"{folder}/object-{number}.txt", body="text")
        await published.object.put(container="bigdata", path=f"{folder}/dir-{number}/")
    listed = {"container": "bigdata", "path": folder, "get_all_attributes": True}
    every = (await published.container.list(**listed)).output
    assert (len(every.contents), len(every.common_prefixes)) == (5, 5)
    assert (every.contents[0].mode, every.common_prefixes[0].mode) == ("0100664", "040775")
    only = (await published.container.list(**listed, directories_only=True)).output
    assert (len(only.contents), len(only.common_prefixes)) == (0, 5)
    absent = await published.container.list(container="bigdata", path="/no-such", raise_for_status=NEVER)
    assert (absent.status_code, b"No such file" in absent.body) == (404, True)
    await published.container.list(container="bigdata", path="/")


async def test_a_schema_is_an_object_with_a_strange_name(published: Client, folder: str) -> None:
    fields = [{"name": "key_field", "type": "string", "nullable": False}]
    await published.kv.create_schema(container="bigdata", table_path=folder, key="key_field", fields=fields)
    listed = (await published.container.list(container="bigdata", path=folder)).output
    assert [content.key for content in listed.contents] == [f"{folder}/.#schema"]


async def test_whoever_has_no_key_is_told_so(folder: str) -> None:
    async with EmbeddedV3io(access_key="s3cret") as server:
        for key, status in (("s3cret", 404), ("other", 401)):
            client = v3io.dataplane.Client(v3io.logger.Logger("ERROR"), endpoint=server.url, access_key=key)
            try:
                answer = client.stream.describe("bigdata", folder, raise_for_status=NEVER)
                assert answer.status_code == status
            finally:
                client.close()
