"""Streams of a v3io server on the wire: created, filled, sought, read, and what is refused."""

import asyncio
import base64
import io
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from servers import SharedV3io
from v3io_calls import Calls, calls

from headrace.runtime.embedded.v3io.server import EmbeddedV3io

HOUR_NS = 3600 * 10**9


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_a_stream_is_described_by_a_request_without_a_body(
    v3io: SharedV3io, client: Calls, folder: str
) -> None:
    await client.create(f"bigdata/{folder}/s", 3, hours=48)
    for path in (f"bigdata/{folder}/s", f"bigdata/{folder}/s/", f"/bigdata//{folder}//s/"):
        headers = {"X-v3io-function": "DescribeStream"}
        async with client.session.put(f"{v3io.url}/{path}", headers=headers) as answer:
            assert answer.status == 200
            assert await answer.json() == {"ShardCount": 3, "RetentionPeriodHours": 48}


async def test_create_and_update_answer_with_nothing(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/s/"
    assert (await client.call("CreateStream", path, {"ShardCount": 1}))[:2] == (204, {})
    assert (await client.call("UpdateStream", path, {"ShardCount": 2}))[:2] == (204, {})
    assert (await client.call("DescribeStream", path))[1] == {"ShardCount": 2, "RetentionPeriodHours": 24}


async def test_a_resource_may_be_named_in_the_body(client: Calls, folder: str) -> None:
    await client.create(f"bigdata/{folder}/s")
    path, named = f"bigdata/{folder}/", {"StreamName": "s"}
    assert (await client.call("DescribeStream", path, named))[0] == 200
    records = {"Records": [{"Data": encoded(b"x")}], **named}
    assert (await client.call("PutRecords", path, records))[0] == 200
    seek = {"ShardId": 0, "Type": "EARLIEST", **named}
    assert (await client.call("Seek", path, seek))[0] == 200
    for key in ("bob", {"name": {"S": "bob"}}):
        put = {"TableName": "people", "Key": key, "Item": {"age": {"N": "4"}}}
        assert (await client.call("PutItem", path, put))[0] == 200
    assert (await client.item(f"bigdata/{folder}/people/bob"))["age"] == "4"


async def test_records_go_where_they_say_and_count_from_one_in_each_shard(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/s"
    await client.create(path, 4)
    records = [
        {"ShardId": 1, "Data": encoded(b"first")},
        {"ShardId": 1, "Data": encoded(b"second"), "ClientInfo": encoded(b"info"), "PartitionKey": "k"},
        {"ShardId": 4, "Data": encoded(b"nowhere")},
        {"ShardId": 2, "Data": encoded(b"")},
    ]
    status, content, _ = await client.call("PutRecords", f"{path}/", {"Records": records})
    assert (status, content["FailedRecordCount"]) == (200, 1)
    assert content["Records"][2].pop("ErrorMessage").startswith("ShardIDOutOfRangeException")
    assert content["Records"] == [
        {"SequenceNumber": 1, "ShardId": 1},
        {"SequenceNumber": 2, "ShardId": 1},
        {"ErrorCode": -201326594},
        {"SequenceNumber": 1, "ShardId": 2},
    ]
    body = {"Location": await client.seek(f"{path}/1")}
    content = (await client.call("GetRecords", f"{path}/1", body))[1]
    assert (content["RecordsBehindLatest"], content["MSecBehindLatest"]) == (0, 0)
    first, second = content["Records"]
    assert abs(first.pop("ArrivalTimeSec") - time.time()) < 60
    assert 0 <= first.pop("ArrivalTimeNSec") < 10**9
    assert first == {"SequenceNumber": 1, "Data": encoded(b"first")}
    assert (second["ClientInfo"], second["PartitionKey"]) == (encoded(b"info"), "k")


async def test_a_partition_key_keeps_to_its_shard_and_other_records_take_turns(
    client: Calls, folder: str
) -> None:
    path = f"bigdata/{folder}/s"
    await client.create(path, 4)
    keyed = [{"Data": "", "PartitionKey": key} for key in ("a", "b", "a", "b", "a")]
    plain = [{"Data": ""} for _ in range(8)]
    content = (await client.call("PutRecords", f"{path}/", {"Records": keyed + plain}))[1]
    shards = [record["ShardId"] for record in content["Records"]]
    assert len(set(shards[0:5:2])) == len(set(shards[1:5:2])) == 1
    assert sorted(shards[5:]) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_every_way_to_seek_finds_its_place(client: Calls, folder: str) -> None:
    path, shard = f"bigdata/{folder}/s", f"bigdata/{folder}/s/0"
    await client.create(path)
    await client.put(path, b"1", b"2")
    await asyncio.sleep(0.01)  # the time between them, which is sought
    between = time.time_ns()
    await client.put(path, b"3")
    moment = {"TimestampSec": between // 10**9, "TimestampNSec": between % 10**9}
    soon = {"TimestampSec": between // 10**9 + 60}
    for kind, fields, found in [
        ("EARLIEST", {}, [b"1", b"2", b"3"]),
        ("LATEST", {}, []),
        ("SEQUENCE", {"StartingSequenceNumber": 2}, [b"2", b"3"]),
        ("SEQUENCE", {"StartingSequenceNumber": 4}, []),
        ("TIME", moment, [b"3"]),
        ("TIME", {"TimestampSec": 0}, [b"1", b"2", b"3"]),
        ("TIME", soon, []),
    ]:
        location = await client.seek(shard, kind, **fields)
        assert len(base64.b64decode(location)) == 16
        assert (await client.get(shard, location))[0] == found, (kind, fields)


async def test_the_end_of_a_shard_is_a_place_to_wait_at(client: Calls, folder: str) -> None:
    path, shard = f"bigdata/{folder}/s", f"bigdata/{folder}/s/0"
    await client.create(path)
    await client.put(path, b"1")
    _, end = await client.get(shard, await client.seek(shard))
    assert await client.get(shard, end) == ([], end)
    await client.put(path, b"2")
    assert (await client.get(shard, end))[0] == [b"2"]


async def test_an_answer_says_how_much_is_behind_it(client: Calls, folder: str) -> None:
    path, shard = f"bigdata/{folder}/s", f"bigdata/{folder}/s/0"
    await client.create(path)
    await client.put(path, b"1", b"2")
    await asyncio.sleep(0.02)
    await client.put(path, b"3")
    body = {"Location": await client.seek(shard), "Limit": 1}
    content = (await client.call("GetRecords", shard, body))[1]
    assert content["RecordsBehindLatest"] == 2
    assert 20 <= content["MSecBehindLatest"] < 60_000


async def test_an_answer_has_ten_megabytes_at_most(client: Calls, folder: str) -> None:
    path, shard = f"bigdata/{folder}/s", f"bigdata/{folder}/s/0"
    await client.create(path)
    large = bytes(2 << 20)
    for _ in range(3):
        await client.put(path, large, large)
    found, location, rounds = 0, await client.seek(shard), 0
    while found < 6:
        records, location = await client.get(shard, location)
        assert records
        found, rounds = found + len(records), rounds + 1
    assert rounds == 2


async def test_a_shard_is_there_with_its_first_record(client: Calls, folder: str) -> None:
    path, shard = f"bigdata/{folder}/s", f"bigdata/{folder}/s/1"
    await client.create(path, 2)
    item = {"__g_committed_sequence_number": {"N": "1"}}
    for function, body in [
        ("GetItem", {"AttributesToGet": "*"}),
        ("SeekShard", {"Type": "EARLIEST"}),
        ("GetRecords", {"Location": encoded(bytes(16))}),
    ]:
        assert (await client.call(function, shard, body))[:2] == (
            404,
            {"ErrorCode": -2, "ErrorMessage": "No such file or directory"},
        )
    assert await client.put_item(shard, item, "__obj_type == 3") == 400
    assert (await client.call("GetItem", shard))[0] == 404

    await client.put(path, b"1", shard=1)
    assert await client.put_item(shard, item, "__obj_type == 3") == 200
    names = "__last_sequence_num,__obj_type,__g_committed_sequence_number,missing"
    assert await client.item(shard, names) == {
        "__last_sequence_num": "1",
        "__obj_type": "3",
        "__g_committed_sequence_number": "1",
    }
    await client.put(path, b"2", shard=1)
    assert (await client.item(shard, names))["__g_committed_sequence_number"] == "1"


async def test_a_file_in_the_place_of_a_shard_becomes_one(client: Calls, folder: str) -> None:
    path, shard = f"bigdata/{folder}/s", f"bigdata/{folder}/s/0"
    await client.create(path)
    assert await client.put_item(shard, {"stray": {"N": "1"}}) == 200
    assert (await client.call("SeekShard", shard, {"Type": "LATEST"}))[0] == 400
    assert await client.put(path, b"1") == [1]
    assert await client.item(shard, "stray,__obj_type") == {"stray": "1", "__obj_type": "3"}


async def test_a_location_is_of_its_shard_and_of_no_other_life_of_it(client: Calls, folder: str) -> None:
    path, shard = f"bigdata/{folder}/s", f"bigdata/{folder}/s/0"
    await client.create(path, 2)
    await client.put(path, b"1")
    await client.put(path, b"1", shard=1)
    location = await client.seek(shard)
    async with client.session.delete(f"/{shard}") as answer:
        assert answer.status == 204
    assert await client.put(path, b"again") == [1]
    for where in (shard, f"bigdata/{folder}/s/1"):
        status, content, _ = await client.call("GetRecords", where, {"Location": location})
        assert (status, "IllegalLocationException" in content["ErrorMessage"]) == (400, True)


@pytest.mark.parametrize(
    ("function", "place", "body", "status", "message"),
    [
        ("CreateStream", "/s/", {"ShardCount": 1}, 409, "ResourceInUseException"),
        ("CreateStream", "/new/", {}, 400, "InvalidArgumentException"),
        ("CreateStream", "/new/", {"ShardCount": 0}, 400, "InvalidArgumentException"),
        ("CreateStream", "/new/", {"ShardCount": 4097}, 400, "InvalidArgumentException"),
        ("CreateStream", "/new/", {"ShardCount": True}, 400, "InvalidArgumentException"),
        ("CreateStream", "/new/", {"ShardCount": 1, "RetentionPeriodHours": 0}, 400, "InvalidArgument"),
        ("CreateStream", "/new/", {"ShardCount": 1, "RetentionPeriodHours": 9000}, 400, "InvalidArgument"),
        ("CreateStream", "/file/new/", {"ShardCount": 1}, 409, "Not a directory"),
        ("UpdateStream", "/s/", {"ShardCount": 2}, 400, "InvalidShardCountException"),
        ("UpdateStream", "/new/", {"ShardCount": 2}, 404, "No such file or directory"),
        ("DescribeStream", "/", None, 400, "ResourceNotStreamException"),
        ("DescribeStream", "/new/", None, 404, "No such file or directory"),
        ("PutRecords", "/new/", {"Records": []}, 404, "No such file or directory"),
        ("PutRecords", "/file", {"Records": []}, 400, "ResourceNotStreamException"),
        ("PutRecords", "/s/", {}, 400, "InvalidArgumentException"),
        ("PutRecords", "/s/", {"Records": [{"Data": ""}] * 1001}, 400, "InvalidArgumentException"),
        ("SeekShard", "/s/2", {"Type": "EARLIEST"}, 400, "ShardIDOutOfRangeException"),
        ("SeekShard", "/s/01", {"Type": "EARLIEST"}, 400, "InvalidArgumentException"),
        ("SeekShard", "/s/abc", {"Type": "EARLIEST"}, 400, "InvalidArgumentException"),
        ("SeekShard", "/s/" + "9" * 400, {"Type": "EARLIEST"}, 400, "Exception"),
        ("SeekShard", "/s/1", {"Type": "EARLIEST"}, 404, "No such file or directory"),
        ("SeekShard", "/file/0", {"Type": "EARLIEST"}, 400, "ResourceNotStreamException"),
        ("SeekShard", "/new/0", {"Type": "EARLIEST"}, 404, "No such file or directory"),
        ("SeekShard", "/s/0", {}, 400, "InvalidArgumentException"),
        ("SeekShard", "/s/0", {"Type": "SOON"}, 400, "InvalidArgumentException"),
        ("SeekShard", "/s/0", {"Type": "SEQUENCE"}, 400, "InvalidArgumentException"),
        ("SeekShard", "/s/0", {"Type": "SEQUENCE", "StartingSequenceNumber": 3}, 400, "InvalidArgument"),
        ("SeekShard", "/s/0", {"Type": "SEQUENCE", "StartingSequenceNumber": -1}, 400, "InvalidArgument"),
        ("SeekShard", "/s/0", {"Type": "SEQUENCE", "StartingSequenceNumber": 0}, 400, "IllegalLocationExc"),
        ("SeekShard", "/s/0", {"Type": "TIME"}, 400, "InvalidArgumentException"),
        ("SeekShard", "/s/0", {"Type": "TIME", "TimestampSec": 1 << 62}, 400, "InvalidArgumentException"),
        ("GetRecords", "/s/0", {}, 400, "IllegalLocationException"),
        ("GetRecords", "/s/0", {"Location": "no"}, 400, "IllegalLocationException"),
        ("GetRecords", "/s/0", {"Location": "é"}, 400, "IllegalLocationException"),
        ("GetRecords", "/s/0", {"Location": encoded(bytes(16))}, 400, "IllegalLocationException"),
        ("GetRecords", "/s/0", {"Location": encoded(bytes(17))}, 400, "IllegalLocationException"),
        ("GetRecords", "/s/0", {"Location": 1}, 400, "InvalidArgumentException"),
        ("Nonsense", "/s/", {}, 400, "InvalidArgumentException"),
    ],
)
async def test_what_cannot_be_done_is_refused_as_the_platform_refuses_it(  # noqa: PLR0917
    client: Calls, folder: str, function: str, place: str, body: Any, status: int, message: str
) -> None:
    await client.create(f"bigdata/{folder}/s", 2)
    await client.put(f"bigdata/{folder}/s", b"1")
    assert await client.put_item(f"bigdata/{folder}/file", {}) == 200
    found, content, _ = await client.call(function, f"bigdata/{folder}{place}", body)
    assert (found, sorted(content)) == (status, ["ErrorCode", "ErrorMessage"])
    assert type(content["ErrorCode"]) is int
    assert message in content["ErrorMessage"]
    assert "\n" not in content["ErrorMessage"]


@pytest.mark.parametrize(
    "record",
    [
        "text",
        {},
        {"Data": None},
        {"Data": 1},
        {"Data": "no base64"},
        {"Data": "é"},
        {"Data": encoded(bytes((2 << 20) + 1))},
        {"Data": "", "ClientInfo": encoded(bytes(17))},
        {"Data": "", "PartitionKey": "k" * 257},
        {"Data": "", "PartitionKey": "\ud800"},
        {"Data": "", "PartitionKey": 1},
        {"Data": "", "ShardId": -1},
        {"Data": "", "ShardId": "0"},
        {"Data": "", "ShardId": 0.0},
        {"Data": "", "ShardId": True},
    ],
    ids=lambda record: str(record)[:40],
)
async def test_a_record_that_is_refused_refuses_no_other(client: Calls, folder: str, record: Any) -> None:
    await client.create(f"bigdata/{folder}/s", 2)
    body = {"Records": [{"Data": "", "ShardId": 0}, record, {"Data": "", "ShardId": 0}]}
    status, content, _ = await client.call("PutRecords", f"bigdata/{folder}/s/", body)
    assert (status, content["FailedRecordCount"]) == (200, 1)
    assert [record.get("SequenceNumber") for record in content["Records"]] == [1, None, 2]


async def test_a_body_that_is_too_large_is_refused(client: Calls, folder: str) -> None:
    await client.create(f"bigdata/{folder}/s")
    headers = {"X-v3io-function": "PutRecords", "X-v3io-session-key": "key"}
    body = io.BytesIO(bytes((10 << 20) + 1))
    # Before it is sent: else some of it would be on its way yet as the test ends.
    async with client.session.put(
        f"/bigdata/{folder}/s/", data=body, headers=headers, expect100=True
    ) as answer:
        content = await answer.json(content_type=None)
    assert (answer.status, "InvalidArgumentException" in content["ErrorMessage"]) == (413, True)


def made_older(data_dir: Path, hours: int, *sequences: int) -> None:
    """These records of all shards arrived so much earlier. The server is down."""
    with closing(sqlite3.connect(data_dir / "v3io.sqlite3")) as database, database:
        for sequence in sequences:
            database.execute(
                "UPDATE records SET arrival_ns = arrival_ns - ? WHERE sequence = ?",
                (hours * HOUR_NS, sequence),
            )


def kept(data_dir: Path) -> int:
    with closing(sqlite3.connect(data_dir / "v3io.sqlite3")) as database:
        (count,) = database.execute("SELECT count(*) FROM records").fetchone()
        return int(count)


async def test_records_older_than_their_retention_are_gone(tmp_path: Path) -> None:
    path, shard = "bigdata/s", "bigdata/s/0"
    async with EmbeddedV3io(tmp_path) as server, calls(server.url) as client:
        await client.create(path, hours=2)
        await client.put(path, b"1", b"2", b"3", b"4")
        old, new = await client.seek(shard), await client.seek(shard, "SEQUENCE", StartingSequenceNumber=3)
    made_older(tmp_path, 3, 1, 2)
    made_older(tmp_path, 1, 3)
    async with EmbeddedV3io(tmp_path) as server, calls(server.url) as client:
        status, content, _ = await client.call("GetRecords", shard, {"Location": old})
        assert (status, "IllegalLocationException" in content["ErrorMessage"]) == (400, True)
        wanted = {"Type": "SEQUENCE", "StartingSequenceNumber": 2}
        status, content, _ = await client.call("SeekShard", shard, wanted)
        assert (status, "IllegalLocationException" in content["ErrorMessage"]) == (400, True)
        assert (await client.get(shard, new))[0] == [b"3", b"4"]
        assert (await client.get(shard, await client.seek(shard)))[0] == [b"3", b"4"]
        assert await client.put(path, b"5") == [5]
    assert kept(tmp_path) == 3
    made_older(tmp_path, 3, 3, 4, 5)
    async with EmbeddedV3io(tmp_path) as server, calls(server.url) as client:
        assert await client.seek(shard) == await client.seek(shard, "LATEST")
        assert await client.item(shard, "__last_sequence_num") == {"__last_sequence_num": "5"}
        assert await client.put(path, b"6") == [6]
        assert (await client.get(shard, await client.seek(shard)))[0] == [b"6"]


@pytest.mark.full
async def test_what_is_gone_is_deleted_a_few_at_a_time(tmp_path: Path) -> None:
    async with EmbeddedV3io(tmp_path) as server, calls(server.url) as client:
        await client.create("bigdata/s", hours=1)
        for _ in range(3):
            await client.put("bigdata/s", *[b""] * 1000)
    made_older(tmp_path, 2, *range(1, 3001))
    counts = []
    for _ in range(3):
        async with EmbeddedV3io(tmp_path) as server, calls(server.url) as client:
            await client.put("bigdata/s", b"")
        counts.append(kept(tmp_path))
    assert counts == [1001, 2, 3]  # the first call finds it out, and sweeps; each that writes sweeps too
