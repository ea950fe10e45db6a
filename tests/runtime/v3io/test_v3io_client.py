"""The client: each call is sent once, ends in time, and says in a line what came of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.v3io.addresses import StreamPath, V3ioAccess, checked_web_api
from headrace.runtime.v3io.client import V3ioAwayError, V3ioClient, V3ioRefusedError, nothing
from headrace.runtime.v3io.group_format import another_of_that_name, escaped, sequence_attribute
from headrace.runtime.v3io.items import Attributes, decode_attributes, encode_attributes, put_attributes

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def client_of(answer: Answer, call_seconds: float = 10) -> AsyncIterator[V3ioClient]:
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    _, port = runner.addresses[0]
    async with V3ioClient(V3ioAccess(f"http://127.0.0.1:{port}", "key"), call_seconds=call_seconds) as client:
        yield client
    await runner.cleanup()


async def test_a_call_says_who_asks_and_what_for() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        said = {"key": request.headers["X-v3io-session-key"], "function": request.headers["X-v3io-function"]}
        return web.json_response(said | {"path": request.raw_path})

    async with client_of(answer) as client:
        place = StreamPath("big data", "a b/c")
        said = await client.read("DescribeStream", place.url_path, None, dict)
    assert said == {"key": "key", "function": "DescribeStream", "path": "/big%20data/a%20b/c/"}


async def test_a_write_whose_connection_breaks_is_not_sent_again() -> None:
    calls: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        calls.append(request.method)
        if len(calls) > 1:  # what a server does with a connection that it finds idle too long
            assert request.transport is not None
            request.transport.close()
        return web.json_response({})

    async with client_of(answer) as client:
        await client.write("PutItem", "/c/item", {}, nothing)
        with pytest.raises(V3ioAwayError):
            await client.write("PutItem", "/c/item", {}, nothing)
        await asyncio.sleep(0)
    assert calls == ["POST", "POST"]


async def test_a_call_without_an_answer_ends_in_time() -> None:
    is_over = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.Response:
        await is_over.wait()
        return web.Response()

    async with client_of(answer, call_seconds=0.1) as client:
        with pytest.raises(V3ioAwayError, match=r"no answer within 0\.1 s"):
            await client.read("GetItem", "/c/item", None, nothing)
        is_over.set()  # a server's stop waits for what it is in


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (404, '{"ErrorCode": -2, "ErrorMessage": "No such file"}', V3ioRefusedError, "404 No such file"),
        (400, "two\nlines", V3ioRefusedError, r"400 two\\nlines"),
        (403, "", V3ioRefusedError, "403"),
        (503, "busy", V3ioAwayError, "503 busy"),
        (200, "<html>", V3ioAwayError, "makes no sense"),
        (302, "", V3ioRefusedError, "302"),
    ],
)
async def test_each_refusal_is_a_line(status: int, body: str, kind: type[Exception], said: str) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(status=status, text=body)

    async with client_of(answer) as client:
        with pytest.raises(kind, match=said) as refused:
            await client.read("GetItem", "/c/item", None, nothing)
    assert "\n" not in str(refused.value)


async def test_a_condition_that_does_not_hold_is_no_error() -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.json_response({"ErrorCode": -1, "ErrorMessage": "condition"}, status=400)

    async with client_of(answer) as client:
        assert await put_attributes(client, "/c/item", {"a": 1}, "a == 0") is not None


def test_typed_values_come_back() -> None:
    values: Attributes = {"n": 7, "big": 2**62, "f": 1.5, "s": "text", "b": b"\x00\xff", "yes": True}
    assert decode_attributes(encode_attributes(values)) == values
    assert encode_attributes({"n": 7}) == {"n": {"N": "7"}}


@pytest.mark.parametrize(
    ("group", "expected"),
    [("cg0", "cg0"), ("0abc", "0abc"), ("my-group", "my_x2d_group"), ("å", "_xe5_")],
)
def test_a_group_is_itself_in_an_attribute_where_that_can_be(group: str, expected: str) -> None:
    assert escaped(group) == expected
    assert sequence_attribute(group) == f"__{expected}_committed_sequence_number"


GROUPS = st.text("a-b_x25f.dé", min_size=1, max_size=12)


@given(GROUPS, GROUPS)
def test_two_groups_that_may_be_have_two_attributes(one: str, other: str) -> None:
    if one != other and not another_of_that_name(one) and not another_of_that_name(other):
        assert escaped(one) != escaped(other)


@pytest.mark.parametrize(
    ("group", "other"),
    [
        ("my_x2d_group", "my-group"),
        ("a_x2d-b", "a-x2d_b"),
        ("my-group", ""),
        ("a-x2d_b", ""),
        ("team_x2_orders", ""),  # no group has a control character
        ("x_x41_y", ""),  # nobody spells an A like that
    ],
)
def test_a_group_that_would_share_the_attribute_of_another_is_known(group: str, other: str) -> None:
    assert another_of_that_name(group) == other


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v3io-webapi:8081", "http://v3io-webapi:8081"),
        ("https://h/", "https://h"),
        ("http://[::1]:8081", "http://[::1]:8081"),
    ],
)
def test_an_address_has_a_scheme(text: str, expected: str) -> None:
    assert checked_web_api(text) == expected


@pytest.mark.parametrize("text", ["", "ftp://h", "http://u:hush@h", "h:1/path", "h h"])
def test_what_is_no_address_is_refused_without_a_password(text: str) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        checked_web_api(text)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "bigdata", "/bigdata/", "bigdata//"])
def test_a_stream_needs_a_container_and_a_path(text: str) -> None:
    with pytest.raises(ValueError, match="is no stream"):
        StreamPath.parse(text)
