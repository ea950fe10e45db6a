"""Items of a v3io server on the wire: put, updated and read under conditions, and scanned."""

import asyncio
from typing import Any

import pytest
from v3io_calls import Calls

VERIFIER = "X-v3io-transaction-verifier"
EVERYTHING = {
    "s": {"S": "text ü 'quoted'"},
    "whole": {"N": "42"},
    "part": {"N": "3.14"},
    "yes": {"BOOL": True},
    "blob": {"B": "AAEC"},
    "when": {"TS": "1714550400:5"},
}


async def test_every_type_comes_back_as_it_was_sent(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/item"
    assert await client.put_item(path, EVERYTHING) == 200
    assert (await client.call("GetItem", path, {"AttributesToGet": "*"}))[1] == {"Item": EVERYTHING}
    chosen = {"AttributesToGet": "s,missing,__name"}
    assert (await client.call("GetItem", path, chosen))[1] == {
        "Item": {"s": EVERYTHING["s"], "__name": {"S": "item"}}
    }


async def test_a_put_replaces_the_item_unless_it_says_that_it_merges(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/item"
    await client.put_item(path, {"a": {"N": "1"}, "b": {"N": "1"}}, replaces=True)
    await client.put_item(path, {"b": {"N": "2"}})
    assert await client.item(path) == {"a": "1", "b": "2"}
    await client.put_item(path, {"c": {"N": "3"}}, replaces=True)
    assert await client.item(path) == {"c": "3"}


async def test_the_system_has_attributes_of_its_own(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/item"
    await client.put_item(path, {"a": {"N": "1"}})
    every = await client.item(path, "**")
    assert every.items() >= {"a": "1", "__name": "item", "__size": "0", "__obj_type": "0"}.items()
    assert every["__mode"] == str(0o100664)
    wanted = "__mtime_secs __mtime_nsecs __ctime_secs __ctime_nsecs __atime_secs __atime_nsecs __inode_number"
    assert set(f"{wanted} __uid __gid __collection_id".split()) <= every.keys()
    assert "__last_sequence_num" not in every


@pytest.mark.parametrize("name", ["__name", "__mtime_secs", "__obj_type", "__last_sequence_num"])
async def test_what_is_the_systems_cannot_be_set(client: Calls, folder: str, name: str) -> None:
    path = f"bigdata/{folder}/item"
    assert await client.put_item(path, {name: {"N": "1"}, "a": {"N": "1"}}) == 403
    for change in (f"{name} = 2", f"REMOVE {name}"):
        update = {"UpdateExpression": f"SET a = 1; {change}"}
        assert (await client.call("UpdateItem", path, update))[0] == 403
    assert (await client.call("GetItem", path))[0] == 404


@pytest.mark.parametrize("name", ["my-group", "1a", "", "a b", "ä", "a" * 256, "a.b"])
async def test_a_name_has_letters_digits_and_underscores(client: Calls, folder: str, name: str) -> None:
    assert await client.put_item(f"bigdata/{folder}/item", {name: {"N": "1"}}) == 400


async def test_a_write_says_what_holds_until_the_next_one(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/item"
    verifiers: list[str] = []
    for count in range(50):
        item = {"Item": {"count": {"N": str(count)}}, "UpdateMode": "CreateOrReplaceAttributes"}
        condition = {"ConditionExpression": verifiers[-1]} if verifiers else {}
        status, _, headers = await client.call("PutItem", path, item | condition)
        assert status == 200
        assert headers["Last-Modified"].endswith("GMT")
        verifiers.append(headers[VERIFIER])
    assert len(set(verifiers)) == 50
    assert (await client.call("GetItem", path))[2][VERIFIER] == verifiers[-1]
    stale = {"Item": {"count": {"N": "0"}}, "ConditionExpression": verifiers[-2]}
    status, content, headers = await client.call("PutItem", path, stale)
    assert (status, sorted(content), VERIFIER in headers) == (400, ["ErrorCode", "ErrorMessage"], False)
    assert await client.item(path) == {"count": "49"}


async def test_only_one_of_many_makes_what_is_not_there_yet(client: Calls, folder: str) -> None:
    path, state = f"bigdata/{folder}/g-state.json", {"state": {"S": "{}"}}
    puts = (client.put_item(path, state, "not(exists(state))") for _ in range(20))
    assert sorted(await asyncio.gather(*puts)) == [200, *[400] * 19]


async def test_an_update_has_an_alternative_for_a_false_condition(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/item"
    update = {
        "ConditionExpression": "exists(age)",
        "UpdateExpression": "age = age + 1",
        "AlternateUpdateExpression": "SET age = 1",
    }
    for expected in ("1", "2", "3"):
        status, _, headers = await client.call("UpdateItem", path, update)
        assert (status, VERIFIER in headers) == (200, True)
        assert await client.item(path) == {"age": expected}
    refused = {"ConditionExpression": "age > 3", "UpdateExpression": "age = 0"}
    assert (await client.call("UpdateItem", path, refused))[0] == 400
    removal = {"UpdateExpression": "REMOVE age; SET name = 'x'"}
    assert (await client.call("UpdateItem", path, removal))[0] == 200
    assert await client.item(path) == {"name": "x"}


async def test_directories_have_attributes_too(client: Calls, folder: str) -> None:
    await client.create(f"bigdata/{folder}/s")
    assert await client.put_item(f"bigdata/{folder}/s/", {"a": {"N": "1"}}) == 200
    assert await client.item(f"bigdata/{folder}/s", "a,__obj_type") == {"a": "1", "__obj_type": "2"}
    assert (await client.call("DescribeStream", f"bigdata/{folder}/s"))[0] == 200


async def test_a_string_has_a_most_length(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/item"
    assert await client.put_item(path, {"state": {"S": "x" * 61_200}}) == 200
    assert await client.put_item(path, {"state": {"S": "x" * 61_201}}) == 400
    longer = {"UpdateExpression": f"state = '{'x' * 61_201}'"}
    assert (await client.call("UpdateItem", path, longer))[0] == 400


DEEP = "[" * 100_000
HOSTILE: list[tuple[str, Any]] = [
    ("PutItem", {}),
    ("PutItem", {"Item": []}),
    ("PutItem", {"Item": {"a": 1}}),
    ("PutItem", {"Item": {"a": {"S": 1}}}),
    ("PutItem", {"Item": {"a": {"N": "1e999"}}}),
    ("PutItem", {"Item": {"a": {"N": "9" * 5000}}}),
    ("PutItem", {"Item": {"a": {"S": "\ud800"}}}),
    ("PutItem", {"Item": {"\ud800": {"S": "x"}}}),
    ("PutItem", {"Item": {}, "UpdateMode": "Whatever"}),
    ("PutItem", {"Item": {}, "UpdateMode": 1}),
    ("PutItem", {"Item": {}, "ConditionExpression": 1}),
    ("PutItem", {"Item": {}, "ConditionExpression": "("}),
    ("PutItem", {"Item": {}, "ConditionExpression": "(" * 100_000}),
    ("PutItem", {"Item": {}, "ConditionExpression": "NOT " * 100_000 + "a"}),
    ("PutItem", {"Item": {}, "ConditionExpression": "a == '\ud800'"}),
    ("PutItem", {"Item": {}, "ConditionExpression": "a == " + "9" * 100_000}),
    ("UpdateItem", {}),
    ("UpdateItem", {"UpdateExpression": "age = missing + 1"}),
    ("UpdateItem", {"UpdateExpression": "1 = 1"}),
    ("UpdateItem", {"UpdateExpression": "a" * 256 + " = 1"}),
    ("UpdateItem", {"UpdateExpression": "-" * 100_000}),
    ("GetItem", {"AttributesToGet": 1}),
    ("GetItem", {"AttributesToGet": ["a"]}),
    ("GetItems", {"FilterExpression": "a ="}),
    ("GetItems", {"Marker": "no base64"}),
    ("GetItems", {"Limit": -1}),
    ("GetItems", {"Segment": 4, "TotalSegment": 4}),
    ("GetItems", {"TotalSegment": 1025}),
    ("GetItems", {"ShardingKey": "\ud800"}),
    ("GetItem", {"Key": {"a": {"b": {"c": "d"}}}}),
    ("GetItem", {"Key": "a/b"}),
    ("GetItem", {"Key": "\ud800"}),
    ("GetItem", {"Key": "\0"}),
    ("GetItem", []),
    ("GetItem", "text"),
    ("GetItem", 1),
]


@pytest.mark.parametrize(("function", "body"), HOSTILE)
async def test_what_is_wrong_with_a_call_is_said_and_nothing_is_written(
    client: Calls, folder: str, function: str, body: Any
) -> None:
    path = f"bigdata/{folder}/"
    assert await client.put_item(f"{path}kept", {"a": {"N": "1"}}) == 200
    status, content, _ = await client.call(function, path, body)
    assert (status, sorted(content)) == (400, ["ErrorCode", "ErrorMessage"])
    assert "\n" not in content["ErrorMessage"]
    assert len(content["ErrorMessage"]) < 1000
    assert (await client.call("GetItems", path))[1]["Items"] == [{"a": {"N": "1"}, "__name": {"S": "kept"}}]


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b"nonsense", DEEP.encode(), b'{"Item":' + b"1" * 5000 + b"}", b'{"a":' * 100_000, b"NaN"],
    ids=lambda body: body[:10],
)
async def test_a_body_that_is_no_json_is_refused(client: Calls, folder: str, body: bytes) -> None:
    headers = {"X-v3io-function": "PutItem"}
    async with client.session.put(f"/bigdata/{folder}/a", data=body, headers=headers) as answer:
        assert answer.status == 400
        assert "InvalidArgumentException" in (await answer.json())["ErrorMessage"]


async def names(client: Calls, path: str, **fields: Any) -> list[str]:
    """Of all pages, the marker handed on as published cursors do it: an empty page is the last."""
    found: list[str] = []
    marker: dict[str, str] = {}
    while True:
        status, content, _ = await client.call("GetItems", path, {**fields, **marker})
        assert status == 200, content
        found += [item["__name"]["S"] for item in content["Items"]]
        if content["LastItemIncluded"] == "TRUE" or not content["Items"]:
            return found
        marker = {"Marker": content["NextMarker"]}


async def test_a_scan_finds_items_page_by_page(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/"
    await client.create(f"{path}stream")
    for number in range(25):
        await client.put_item(f"{path}key.{number:02}", {"n": {"N": str(number)}})
    every = [f"key.{number:02}" for number in range(25)]
    assert await names(client, path) == every
    for limit in (1, 7, 25, 1000):
        assert await names(client, path, Limit=limit) == every
    assert await names(client, path, FilterExpression="n >= 20", Limit=2) == every[20:]
    assert await names(client, path, FilterExpression="__name == 'key.07'") == ["key.07"]
    assert await names(client, path, FilterExpression="n > 100") == []
    segments = [await names(client, path, Segment=one, TotalSegment=4, Limit=3) for one in range(4)]
    assert sorted(name for part in segments for name in part) == every
    assert all(segments)
    ranged = {"ShardingKey": "key", "SortKeyRangeStart": "05", "SortKeyRangeEnd": "10"}
    assert await names(client, path, **ranged, Limit=2) == every[5:10]
    assert await names(client, path, ShardingKey="key") == every
    assert await names(client, path, ShardingKey="ke") == []


async def test_a_client_that_asks_for_capnp_gets_json(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/"
    await client.put_item(f"{path}a", {"n": {"N": "1"}})
    headers = {"X-v3io-response-content-type": "capnp"}
    status, content, answered = await client.call("GetItems", path, {"AttributesToGet": "n"}, **headers)
    assert (status, content["Items"]) == (200, [{"n": {"N": "1"}}])
    assert answered["Content-Type"].startswith("application/json")


async def test_a_scan_needs_a_directory(client: Calls, folder: str) -> None:
    assert (await client.call("GetItems", f"bigdata/{folder}/"))[0] == 404
    await client.put_item(f"bigdata/{folder}/a", {})
    assert (await client.call("GetItems", f"bigdata/{folder}/a/"))[0] == 409
