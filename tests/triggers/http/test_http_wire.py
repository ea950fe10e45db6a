"""What goes over a connection, byte by byte: who waits to be told to go on, and answers without a body."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from http_function import Function, http_function
from worker_bench import until

from headrace.runtime.web import connection, server

ECHO = """
    def handler(context, event):
        write(event.method + event.path)
        return event.body or event.url
"""
EVAL = """
    def handler(context, event):
        return eval(event.body.decode(), dict(context=context))
"""
EXPECTS = b"POST /x HTTP/1.1\r\nHost: x\r\nExpect: %b\r\nContent-Length: %d\r\n\r\n"
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.fixture(autouse=True)
def no_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a refused client still sends isn't waited for: here it sends nothing."""
    for module in (connection, server):
        monkeypatch.setattr(module, "LINGER_SECONDS", 0.1)


@asynccontextmanager
async def connected(f: Function) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await f.connect()
    yield reader, writer
    writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head and the body of the next one, whose length is said."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return head, await reader.readexactly(int(length or b"0"))


async def test_who_waits_to_be_told_to_go_on_is_told_or_refused_at_once(tmp_path: Path) -> None:
    async with http_function(tmp_path, ECHO, attributes={"maxRequestBodySize": 1000}) as f:
        async with connected(f) as (reader, writer):
            for expectation in (b"100-continue", b"100-Continue"):
                writer.write(EXPECTS % (expectation, 4))
                assert await reader.readuntil(b"\r\n\r\n") == GO_ON
                writer.write(b"body")
                head, body = await answer(reader)
                assert (head[:12], body) == (b"HTTP/1.1 200", b"body")

            # Who sends it all the same isn't told, and in HTTP/1.0 nobody is.
            writer.write(EXPECTS % (b"100-continue", 4) + b"more")
            assert (await answer(reader))[1] == b"more"
            writer.write(EXPECTS % (b"100-continue", 0))
            assert (await answer(reader))[0].startswith(b"HTTP/1.1 200")
        old = (EXPECTS % (b"100-continue", 3)).replace(b"HTTP/1.1", b"HTTP/1.0") + b"old"
        assert (await f.send(old)).startswith(b"HTTP/1.0 200")
        assert len(f.lines()) == 5

        for expectation, length, status in (
            (b"100-continue", 1001, b"413"),
            (b"200-ok", 4, b"417"),
            (b"100-continue, 200-ok", 4, b"417"),
        ):
            said = await f.send(EXPECTS % (expectation, length))
            assert said[9:12] == status
            assert said.count(b"HTTP/1.1") == 1
            assert b"Connection: close" in said
        chunked = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
        async with connected(f) as (reader, writer):
            writer.write(chunked)
            assert await reader.readuntil(b"\r\n\r\n") == GO_ON
            writer.write(b"3\r\nabc\r\n0\r\n\r\n")
            assert (await answer(reader))[1] == b"abc"
        assert len(f.lines()) == 6


async def test_a_body_that_is_said_to_be_too_long_is_not_waited_for(tmp_path: Path) -> None:
    async with http_function(tmp_path, ECHO, attributes={"maxRequestBodySize": 1000}) as f:
        said = await f.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 413")
        assert f.lines() == []


async def test_a_tunnel_is_refused_and_a_request_for_all_or_with_a_whole_address_is_one(
    tmp_path: Path,
) -> None:
    async with http_function(tmp_path, ECHO) as f:
        for target in (b"x:80", b"/x"):
            said = await f.send(b"CONNECT %b HTTP/1.1\r\nHost: x\r\n\r\n" % target)
            assert said.startswith(b"HTTP/1.1 405")
            assert b"Connection: close" in said
        assert f.lines() == []
        async with connected(f) as (reader, writer):
            writer.write(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader))[1] == b"http://x"
            writer.write(b"GET http://there/a?b HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader))[1] == b"http://there/a?b"
        assert f.lines() == ["OPTIONS/", "GET/a"]


async def test_a_path_that_no_ingress_covers_is_404_whatever_is_in_it(tmp_path: Path) -> None:
    async with http_function(tmp_path, ECHO, attributes={"ingresses": {"a": {"paths": ["/a"]}}}) as f:
        said = await f.send(b"GET /b%ff%0d%0ac HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 404")
        assert said.endswith(rb"covers /b\udcff\r\nc" + b"\n")
        assert b"aiohttp" not in said
        # Whoever was not told to go on may send its next request: nothing is to take that for the body.
        for path in (b"/b", b"/__internal/health"):
            said = await f.send((EXPECTS % (b"100-continue", 40)).replace(b"/x", path))
            assert b"100 Continue" not in said
            assert b"Connection: close" in said


async def ask(writer: asyncio.StreamWriter, result: str, method: bytes = b"POST") -> None:
    head = b"%b /x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % (method, len(result)) + result.encode())


WITHOUT_BODY = [
    (b"HEAD", "(c for c in 'xyz')"),
    (b"HEAD", "'hello'"),
    (b"POST", "(204, 'hello')"),
    (b"POST", "(205, 'hello')"),
    (b"POST", "(304, 'hello')"),
    (b"POST", "context.Response(body=(c for c in 'xyz'), status_code=204)"),
    (b"POST", "context.Response(body=(c for c in 'xyz'), status_code=304)"),
]


async def test_an_answer_that_has_no_body_is_followed_by_the_next_answer(tmp_path: Path) -> None:
    async with http_function(tmp_path, EVAL) as f, connected(f) as (reader, writer):
        for method, result in WITHOUT_BODY:
            await ask(writer, result, method)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"chunked" not in head, result
            await ask(writer, "'fine'")
            assert await reader.readexactly(12) == b"HTTP/1.1 200", result
            assert (await answer(reader))[1] == b"fine"
        await until(lambda: f.running.trigger.status().about["openRequests"] == 0)


UNSAYABLE = [
    "(101, 'x')",
    "(100, '')",
    "context.Response(status_code=101, body=(c for c in 'x'))",
    "context.Response(headers={'a b': 'x'}, body='x')",
    "context.Response(headers={'a': 'x\\x01'}, body='x')",
    "context.Response(headers={'a': b'\\xff'}, body=(c for c in 'xyz'))",
    "context.Response(headers=['a: b'], body='x')",
]


async def test_an_answer_that_http_cannot_say_is_500_and_one_line_and_the_connection_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with http_function(tmp_path, EVAL) as f, connected(f) as (reader, writer):
        for count, result in enumerate(UNSAYABLE, 1):
            await ask(writer, result)
            assert (await answer(reader))[0].startswith(b"HTTP/1.1 500"), result
            await ask(writer, "'fine'")
            assert (await answer(reader))[1] == b"fine"
            await until(lambda at_least=count: caplog.text.count("POST /x") >= at_least)
        assert caplog.text.count("POST /x") == len(UNSAYABLE)
        assert "Traceback" not in caplog.text
