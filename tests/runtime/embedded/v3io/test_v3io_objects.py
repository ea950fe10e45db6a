"""Objects and listings of a v3io server, who may ask for them, and addresses of all sorts."""

import asyncio
import base64
import re
import xml.etree.ElementTree as ET
from contextlib import suppress

import pytest
from servers import SharedV3io
from v3io_calls import Calls, calls
from yarl import URL

from headrace.runtime.embedded.v3io.server import EmbeddedV3io


async def test_an_object_is_put_read_in_parts_appended_to_and_deleted(client: Calls, folder: str) -> None:
    session, url = client.session, f"/bigdata/{folder}/dir/file"
    async with session.get(url) as answer:
        assert (answer.status, "No such file" in await answer.text()) == (404, True)
    async with session.put(url, data=b"12345") as answer:
        assert answer.status == 200
    async with session.put(url, data=b"67890", headers={"Range": "-1"}) as answer:
        assert answer.status == 200
    for asked, status, found in [
        ("", 200, b"1234567890"),
        ("bytes=4", 206, b"567890"),
        ("bytes=4-", 206, b"567890"),
        ("bytes=4-6", 206, b"567"),
        ("bytes=-3", 206, b"890"),
        ("bytes=0-99", 206, b"1234567890"),
    ]:
        async with session.get(url, headers={"Range": asked} if asked else {}) as answer:
            assert (answer.status, await answer.read()) == (status, found), asked
    for asked, status in [("bytes=10-", 416), ("bytes=3-2", 416), ("bytes=a", 400), ("bytes=1-2,4-5", 400)]:
        async with session.get(url, headers={"Range": asked}) as answer:
            assert answer.status == status, asked
    async with session.head(url) as answer:
        assert (answer.status, answer.headers["Content-Length"]) == (200, "10")
    async with session.delete(url) as answer:
        assert answer.status == 204
    async with session.head(url) as answer:
        assert answer.status == 404


async def test_a_directory_stays_when_it_is_emptied_and_goes_when_it_is_deleted(
    client: Calls, folder: str
) -> None:
    session, top = client.session, f"/bigdata/{folder}/a"
    for url, status in [(f"{top}/b/", 200), (f"{top}/b/", 200), (f"{top}/b", 409), (f"{top}/b/c", 200)]:
        async with session.put(url, data=b"") as answer:
            assert answer.status == status
    for url, status in [(f"{top}/b", 409), (f"{top}/b/c", 204), (f"{top}/b/", 204), (f"{top}/b/", 404)]:
        async with session.delete(url) as answer:
            assert answer.status == status, url
    async with session.head(top) as answer:
        assert (answer.status, answer.headers["Content-Length"]) == (200, "0")
    async with session.put(f"{top}/file", data=b"") as answer:
        assert answer.status == 200
    for url in (f"{top}/file/", f"{top}/file/below", f"{top}/file/very/far/below"):
        async with session.put(url, data=b"") as answer:
            assert (answer.status, "Not a directory" in await answer.text()) == (409, True)


async def test_a_shard_is_written_by_records_only_and_a_container_stays(client: Calls, folder: str) -> None:
    await client.create(f"bigdata/{folder}/s")
    await client.put(f"bigdata/{folder}/s", b"1")
    for method, url in [("PUT", f"/bigdata/{folder}/s/0"), ("DELETE", "/bigdata/"), ("DELETE", "/bigdata")]:
        async with client.session.request(method, url) as answer:
            assert answer.status == 403
    async with client.session.request("PATCH", f"/bigdata/{folder}/s/0") as answer:
        assert answer.status == 405


async def test_a_stream_is_found_by_head_and_deleted_shard_by_shard(client: Calls, folder: str) -> None:
    path = f"bigdata/{folder}/s"
    await client.create(path, 2)
    await client.put(path, b"1")
    await client.put_item(f"{path}/g-state.json", {"state": {"S": "{}"}})
    async with client.session.head(f"/{path}/") as answer:
        assert (answer.status, answer.headers["Content-Length"]) == (200, "0")
    for url, status in [("", 409), ("/0", 204), ("/0", 404), ("/g-state.json", 204), ("", 204)]:
        async with client.session.delete(f"/{path}{url}") as answer:
            assert answer.status == status, url
    async with client.session.head(f"/{path}") as answer:
        assert answer.status == 404


async def listed(client: Calls, query: str, container: str = "bigdata") -> ET.Element:
    async with client.session.get(URL(f"/{container}?{query}", encoded=True)) as answer:
        assert answer.status == 200, await answer.text()
        return ET.fromstring(await answer.text())


def texts(root: ET.Element, path: str) -> list[str | None]:
    return [found.text for found in root.findall(path)]


async def test_a_listing_has_one_level_and_pages(client: Calls, folder: str) -> None:
    for number in range(3):
        await client.put_object(f"bigdata/{folder}/file-{number}.txt", b"12345")
        await client.put_object(f"bigdata/{folder}/dir-{number}/sub/")
    for prefix in (f"{folder}/", f"/{folder}", folder):
        root = await listed(client, f"prefix={prefix}")
        assert root.tag == "ListBucketResult"
        assert texts(root, "Contents/Key") == [f"{folder}/file-{number}.txt" for number in range(3)]
        assert texts(root, "CommonPrefixes/Prefix") == [f"{folder}/dir-{number}/" for number in range(3)]
        assert texts(root, "Contents/Size") == ["5"] * 3
        assert root.findtext("Name") == "bigdata"
        assert (root.findtext("IsTruncated"), root.findtext("MaxKeys")) == ("false", "1000")
        assert root.findtext("NextMarker") == f"{folder}/file-2.txt"
        assert {child.tag for child in root[4]} <= {"Key", "Size", "LastModified", "Prefix"}
    root = await listed(client, f"prefix={folder}/&max-keys=2")
    assert texts(root, "CommonPrefixes/Prefix") == [f"{folder}/dir-0/", f"{folder}/dir-1/"]
    assert (root.findtext("IsTruncated"), root.findtext("NextMarker")) == ("true", f"{folder}/dir-1")
    root = await listed(client, f"prefix={folder}/&max-keys=4&marker={root.findtext('NextMarker')}")
    assert root.findtext("IsTruncated") == "false"
    assert len(root.findall("Contents")) == 3
    assert len(root.findall("CommonPrefixes")) == 1


async def test_a_listing_tells_more_where_more_is_asked_for(client: Calls, folder: str) -> None:
    await client.create(f"bigdata/{folder}/s", 4, hours=7)
    await client.put_object(f"bigdata/{folder}/dir/")
    await client.put_object(f"bigdata/{folder}/file", b"12345")
    root = await listed(client, f"prefix={folder}/&prefix-info=1")
    directory, stream = root.findall("CommonPrefixes")
    file = root.find("Contents")
    assert file is not None
    assert (file.findtext("Mode"), directory.findtext("Mode")) == ("0100664", "040775")
    for entry in (file, directory, stream):
        for name in ("LastModified", "AccessTime", "CreatingTime"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\dZ", entry.findtext(name) or "")
        assert (entry.findtext("GID"), entry.findtext("UID")) == ("0", "0")
        assert int(entry.findtext("InodeNumber") or 0) > 0
    assert (stream.findtext("ShardCount"), stream.findtext("RetentionPeriodHours")) == ("4", "7")
    assert directory.find("ShardCount") is None
    root = await listed(client, f"prefix={folder}/&prefix-only=1&prefix-info=1&max-keys=2")
    assert (len(root.findall("Contents")), len(root.findall("CommonPrefixes"))) == (0, 2)
    assert (root.findtext("IsTruncated"), root.findtext("NextMarker")) == ("false", f"{folder}/s")


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("prefix=no-such-path", 404, "No such file"),
        ("prefix=%ff", 400, "UTF-8"),
        ("max-keys=0", 400, "max-keys"),
        ("max-keys=x", 400, "max-keys"),
        ("max-keys=1001", 400, "max-keys"),
        ("prefix=../users", 400, ".."),
    ],
)
async def test_a_listing_that_cannot_be_is_refused(client: Calls, query: str, status: int, text: str) -> None:
    async with client.session.get(URL(f"/bigdata?{query}", encoded=True)) as answer:
        assert (answer.status, text in await answer.text()) == (status, True)


async def test_containers_are_known_beforehand(client: Calls) -> None:
    async with client.session.get("/") as answer:
        root = ET.fromstring(await answer.text())
    assert texts(root, "Buckets/Bucket/Name") == ["bigdata", "projects", "users"]
    for method, url in [("GET", "/other"), ("PUT", "/other/a"), ("HEAD", "/other/a"), ("PUT", "/")]:
        async with client.session.request(method, url) as answer:
            assert answer.status == 404
    status, content, _ = await client.call("GetItem", "other/a")
    assert (status, "Container not found" in content["ErrorMessage"]) == (404, True)


async def test_a_container_may_be_added() -> None:
    async with EmbeddedV3io(containers=["mine"]) as server, calls(server.url) as client:
        await client.create("mine/s")
        assert (await client.call("DescribeStream", "mine/s"))[0] == 200


@pytest.mark.parametrize(
    "name", ["a b", "a#b", "a&b?c", "a%b", "ü", "日本", "a+b", "a'b", "a\\b", "<&>", "🎉"]
)
async def test_a_path_may_have_any_characters(client: Calls, folder: str, name: str) -> None:
    session, url = client.session, URL(f"/bigdata/{folder}") / name
    async with session.put(url, data=name.encode()) as answer:
        assert answer.status == 200
    async with session.get(url) as answer:
        assert await answer.read() == name.encode()
    root = await listed(client, f"prefix={folder}/")
    assert texts(root, "Contents/Key") == [f"{folder}/{name}"]


@pytest.mark.parametrize(
    "path", ["%00", "a/%2e%2e/b", "%ff", "a%0Ab", "/".join("a" * 101), "%ed%a0%80", "%7f", "%e2%80%ae"]
)
async def test_a_path_that_names_nothing_is_refused(v3io: SharedV3io, client: Calls, path: str) -> None:
    url = URL(f"{v3io.url}/bigdata/{path}", encoded=True)
    async with client.session.put(url, data=b"") as answer:
        assert answer.status == 400


async def test_whoever_has_the_key_may_ask_and_nobody_else() -> None:
    key = "s3cret-k/y+="
    async with EmbeddedV3io(access_key=key) as server, calls(server.url) as client:
        await server.create_streams({"users/me/s": 1})
        url, basic = "/users/me/s", base64.b64encode(f"me:{key}".encode()).decode()
        aws = "AWS4-HMAC-SHA256 Credential=s3cret/20240501/region/s3/aws4_request, SignedHeaders=x"
        for headers, status in [
            ({"X-v3io-session-key": key}, 200),
            ({"Authorization": f"Basic {basic}"}, 200),
            ({"X-v3io-session-key": "other"}, 401),
            ({"X-v3io-session-key": ""}, 401),
            ({"Authorization": f"Basic {basic[:-4]}"}, 401),
            ({"Authorization": "Basic é"}, 401),
            ({"Authorization": aws}, 401),
            ({}, 401),
        ]:
            async with client.session.put(
                url, headers={"X-v3io-function": "DescribeStream", **headers}
            ) as answer:
                assert answer.status == status, headers
                assert status == 200 or (await answer.json()).keys() == {"ErrorCode", "ErrorMessage"}
            async with client.session.head(url, headers=headers) as answer:
                assert answer.status == status


async def test_a_key_may_be_the_credential_of_a_signature() -> None:
    async with EmbeddedV3io(access_key="s3cret") as server, calls(server.url) as client:
        aws = "AWS4-HMAC-SHA256 Credential=s3cret/20240501/region/s3/aws4_request, SignedHeaders=x"
        async with client.session.head("/users", headers={"Authorization": aws}) as answer:
            assert answer.status == 200


async def test_without_a_key_anything_will_do(client: Calls) -> None:
    for headers in ({}, {"X-v3io-session-key": "any"}, {"Authorization": "Basic eDp5"}):
        async with client.session.head("/users", headers=headers) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"PUT /bigdata/cut HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345",
        b"PUT /bigdata/cut HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123",
        b"PUT /bigdata/cut HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"PUT /bigdata/cut HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"PUT /bigdata/\xff\xfe\r\n\r\n",
        b"PUT http://[ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        b"PUT * HTTP/1.1\r\nHost: a\r\nX-v3io-function: \xff\xfe\r\nContent-Length: 0\r\n\r\n",
        b"GET /bigdata/" + b"a" * 100_000,
    ],
    ids=lambda sent: sent[:60],
)
async def test_a_connection_that_breaks_off_does_nothing_and_says_nothing(
    v3io: SharedV3io, client: Calls, sent: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(v3io.url.rpartition(":")[2]))
    writer.write(sent)
    writer.write_eof()
    with suppress(ConnectionError):
        await reader.read()
    writer.close()
    async with client.session.head("/bigdata/cut") as answer:
        assert answer.status == 404
    assert v3io.log.read_text() == ""
