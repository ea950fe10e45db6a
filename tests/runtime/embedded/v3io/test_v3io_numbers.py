"""Numbers that arrive at a v3io server: each is in its bounds, or the answer is one line, and no 500."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from servers import SharedV3io
from v3io_calls import Calls
from yarl import URL

WRONG = [-1, 2**63, 10**30, 1.5, float("inf"), float("nan"), True, [], {}, "x", "-1", "1e3", "٣", "1" * 25]
"""Of no field. As JSON that Python's own reader takes: 1e999 and NaN too."""

# The function, what follows the folder, the field, what else the call has, and whether the field may be 0.
FIELDS: list[tuple[str, str, str, dict[str, Any], bool]] = [
    ("CreateStream", "new/", "ShardCount", {}, False),
    ("CreateStream", "new/", "RetentionPeriodHours", {"ShardCount": 1}, False),
    ("UpdateStream", "s/", "ShardCount", {}, False),
    ("SeekShard", "s/0", "StartingSequenceNumber", {"Type": "SEQUENCE"}, False),
    ("SeekShard", "s/0", "TimestampSec", {"Type": "TIME"}, True),
    ("SeekShard", "s/0", "TimestampNSec", {"Type": "TIME", "TimestampSec": 1}, True),
    ("GetRecords", "s/0", "Limit", {}, False),
    ("GetItems", "s/", "Limit", {}, True),
    ("GetItems", "s/", "Segment", {"TotalSegment": 4}, True),
    ("GetItems", "s/", "TotalSegment", {}, True),
]


async def with_stream(client: Calls, folder: str) -> str:
    """Its folder; it has a shard 0 of one record."""
    await client.create(f"bigdata/{folder}/s")
    await client.put(f"bigdata/{folder}/s", b"1")
    return f"bigdata/{folder}"


@pytest.mark.parametrize(
    ("function", "path", "field", "others", "may_be_0"),
    FIELDS,
    ids=lambda it: it if isinstance(it, str) else "",
)
async def test_a_number_of_a_call_is_in_its_bounds(  # noqa: PLR0917  # one row of the table
    client: Calls, folder: str, function: str, path: str, field: str, others: dict[str, Any], may_be_0: bool
) -> None:
    top = await with_stream(client, folder)
    if function == "GetRecords":
        others = {"Location": await client.seek(f"{top}/s/0")}
    for value in WRONG if may_be_0 else [0, *WRONG]:
        status, content, _ = await client.call(function, f"{top}/{path}", {**others, field: value})
        assert (status, sorted(content)) == (400, ["ErrorCode", "ErrorMessage"]), value
        assert "\n" not in content["ErrorMessage"]
        assert len(content["ErrorMessage"]) < 300
    if may_be_0:
        assert (await client.call(function, f"{top}/{path}", {**others, field: 0}))[0] == 200


@pytest.mark.parametrize("value", WRONG, ids=str)
async def test_a_record_names_its_shard_by_a_number(client: Calls, folder: str, value: Any) -> None:
    path = f"{await with_stream(client, folder)}/s/"
    records = [{"Data": "MQ==", "ShardId": value}, {"Data": "MQ=="}]
    status, content, _ = await client.call("PutRecords", path, {"Records": records})
    assert (status, content["FailedRecordCount"]) == (200, 1)
    assert content["Records"][0].keys() == {"ErrorCode", "ErrorMessage"}
    # In the place of a path's last name, as some clients send it.
    status, content, _ = await client.call("SeekShard", path, {"Type": "EARLIEST", "ShardId": value})
    assert (status, sorted(content)) == (400, ["ErrorCode", "ErrorMessage"])


@pytest.mark.parametrize(
    "most",
    ["-1", "0", "1001", "x", "1.5", "1e3", "+5", " 5", "٣", "9" * 25, "1" + "0" * 5000]
    + [f"000000001{'0' * zeros}" for zeros in (10, 25, 5000)],
    ids=lambda most: f"{most[:12]} of {len(most)}",
)
async def test_a_listing_has_as_many_keys_as_it_may(client: Calls, most: str) -> None:
    async with client.session.get(URL(f"/bigdata?max-keys={quote(most)}", encoded=True)) as answer:
        text = await answer.text()
        assert (answer.status, "max-keys" in text, len(text) < 400) == (400, True, True)


@pytest.mark.parametrize("most", ["", "max-keys=", "max-keys=1", "max-keys=0001000"])
@pytest.mark.parametrize("marker", ["", "%ff%fe", "%00", "%ed%a0%80", "../..", "a" * 5000, "'%3B--"])
async def test_a_listing_begins_behind_whatever_it_is_told(client: Calls, most: str, marker: str) -> None:
    async with client.session.get(URL(f"/users?{most}&marker={marker}", encoded=True)) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "asked", "status"),
    [
        ("GET", "bytes=", 400),
        ("GET", "bytes=-", 400),
        ("GET", "bytes=-0", 416),
        ("GET", "bytes=--1", 400),
        ("GET", "bytes=" + "9" * 30, 400),
        ("GET", "bytes=0-" + "9" * 30, 400),
        ("GET", "bytes=" + "9" * 18, 416),
        ("GET", "bytes=-" + "9" * 18, 206),
        ("GET", "bytes=1e3-", 400),
        ("GET", "bytes=٣-", 400),
        ("GET", "bytes=2-1", 416),
        ("GET", "items=0-1", 400),
        ("PUT", "-2", 400),
        ("PUT", "5", 400),
        ("PUT", "bytes=0-1", 400),
    ],
)
async def test_a_range_is_of_what_is_there(
    client: Calls, folder: str, method: str, asked: str, status: int
) -> None:
    await client.put_object(f"bigdata/{folder}/file", b"123")
    headers = {"Range": asked}
    async with client.session.request(method, f"/bigdata/{folder}/file", headers=headers) as answer:
        assert (answer.status, len(await answer.read()) < 400) == (status, True)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /bigdata?max-keys=\xff HTTP/1.1",
        b"GET /bigdata?marker=\xff HTTP/1.1",
        b"GET /bigdata?prefix=\xff HTTP/1.1",
        b"GET /bigdata/\xff HTTP/1.1",
        b"GET /bigdata/ HTTP/1.1\r\nX-v3io-function: \xff",
        b"GET /bigdata/a HTTP/1.1\r\nRange: \xff",
        b"PUT /bigdata/a HTTP/1.1\r\nRange: \xff",
    ],
    ids=lambda sent: sent[:40],
)
async def test_bytes_that_are_no_text_are_refused_like_anything_else(v3io: SharedV3io, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(v3io.url.rpartition(":")[2]))
    writer.write(sent + b"\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert answer.split()[1] in {b"400", b"404"}
    assert v3io.log.read_text() == ""


async def test_what_takes_too_many_steps_is_refused_in_one_line(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/item"
    assert await client.put_item(path, {"big": {"B": "AAAA" * (1 << 19)}}) == 200
    condition, change = " OR ".join(["big == 1"] * 1000), "x = big; " * 1000
    for function, where, body in [
        ("PutItem", path, {"Item": {}, "ConditionExpression": condition}),
        ("UpdateItem", path, {"UpdateExpression": change}),
        ("GetItems", f"bigdata/{folder}/", {"FilterExpression": condition}),
        ("UpdateItem", path, {"UpdateExpression": "; ".join(f"x{it} = big" for it in range(10))}),
        ("GetItem", path, {"AttributesToGet": ",".join(f"a{it}" for it in range(1001))}),
    ]:
        status, content, _ = await client.call(function, where, body)
        assert (status, "InvalidArgumentException" in content["ErrorMessage"]) == (400, True), json.dumps(
            content
        )
        assert "\n" not in content["ErrorMessage"]
    assert (await client.item(path)).keys() == {"big"}
