"""What one connection may have its server keep, seen from a client's side and from the books."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from raw_attacks import frame, handshake
from worker_bench import until

from headrace.runtime.web import limits, payloads
from headrace.runtime.web.connection import Connection
from headrace.web import Limits, ListenError, RefusedError, Server, body_in_parts, frames, whole_body

END = b"\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def head(*lines: bytes, first: bytes = b"POST / HTTP/1.1") -> bytes:
    return b"\r\n".join([first, b"Host: x", *lines, b"", b""])


async def length(request: web.BaseRequest) -> web.Response:
    return web.Response(text=str(len(await whole_body(request, 1 << 20))))


@asynccontextmanager
async def served(
    answer: web.Application | Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] = length,
    limits: Limits | None = None,
) -> AsyncIterator[Server]:
    server = Server(answer, limits or Limits())
    await server.listen("127.0.0.1", 0, who="the server", instead="choose another")
    yield server
    await server.stop(1)
    held = server._limits
    assert (held.heads.byte_count, held.bodies.byte_count, held.frames.byte_count) == (0, 0, 0)
    assert not held.unfinished


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Streams]:
    where = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    yield reader, writer
    writer.transport.abort()


async def answer(streams: Streams) -> bytes:
    """Head and body of the next one, which has a length."""
    said = await streams[0].readuntil(END)
    return said + await streams[0].readexactly(int(said.lower().partition(b"content-length: ")[2].split()[0]))


async def test_what_is_kept_of_a_head_and_of_a_body_is_counted_until_it_is_taken() -> None:
    async with served() as server, connected(server) as streams:
        held, (_, writer) = server._limits, streams
        writer.write(head(b"Content-Length: 300000")[:20])
        await until(lambda: held.heads.byte_count == 2 * 20)
        writer.write(head(b"Content-Length: 300000")[20:] + bytes(100_000))
        await until(lambda: 100_000 <= held.bodies.byte_count < 110_000)
        assert held.heads.byte_count == 0
        writer.write(bytes(200_000) + b"POST")
        assert (await answer(streams)).endswith(b"300000")
        assert (held.heads.byte_count, held.bodies.byte_count) == (2 * 4, 0)
        writer.write(head()[4:])
        assert (await answer(streams)).endswith(b"0")
        assert held.heads.byte_count == 0


async def test_a_request_that_comes_whole_is_not_counted_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.web.memory_budget.MemoryBudget.add", pytest.fail)
    monkeypatch.setattr("asyncio.timeout", pytest.fail)
    async with served() as server, connected(server) as streams:
        for body in (b"", b"abc", b"a" + END + b"b"):
            streams[1].write(head(b"Content-Length: %d" % len(body)) + body)
            assert (await answer(streams)).endswith(b"%d" % len(body))
    monkeypatch.undo()


@pytest.mark.parametrize("piece_bytes", [1, 7, 1000])
async def test_requests_behind_each_other_are_all_answered_in_whatever_pieces(piece_bytes: int) -> None:
    chunked = head(b"Transfer-Encoding: chunked") + b"4\r\n" + END + b"\r\n0" + END
    data = b"".join(head(b"Content-Length: %d" % n) + b"\r\n" * (n // 2) for n in range(0, 120, 2))
    async with served() as server, connected(server) as streams:
        for at in range(0, len(data), piece_bytes):
            streams[1].write(data[at : at + piece_bytes])
            if at % 10 == 0:
                await asyncio.sleep(0)
        for n in range(0, 120, 2):
            assert (await answer(streams)).endswith(END + b"%d" % n)
        streams[1].write(chunked)
        assert (await answer(streams)).endswith(END + b"4")
        assert server._limits.bodies.byte_count == 0


async def test_a_head_may_be_as_long_as_is_said_and_not_longer() -> None:
    async with served(limits=Limits(most_head_bytes=1000)) as server:
        fits = head(b"X: " + b"a" * (1000 - len(head(b"X: "))))
        for padding, wanted in ((b"", b"200"), (b"a", b"431")):
            async with connected(server) as streams:
                streams[1].write(fits.replace(b"X: ", b"X: " + padding))
                assert (await streams[0].readuntil(b"\r\n"))[9:12] == wanted


async def test_who_brings_less_than_the_least_rate_is_408_and_who_brings_more_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "RATE_SECONDS", 0.2)
    async with served() as server, connected(server) as slow, connected(server) as steady:
        for _, writer in (slow, steady):
            writer.write(head(b"Content-Length: 300000") + b"abc")
        ended = asyncio.create_task(slow[0].read())
        while not ended.done():
            steady[1].write(bytes(2000))
            await asyncio.sleep(0.02)
        assert (await ended).startswith(b"HTTP/1.1 408")
        steady[1].write(bytes(300_000))  # more than the rest: what is behind it is no request
        assert (await answer(steady)).endswith(b"300000")
        assert (await answer(steady)).startswith(b"HTTP/1.0 400")


async def test_with_no_room_left_the_slowest_body_is_503_and_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "BODIES_BYTES", 200_000)
    async with served() as server, connected(server) as slow, connected(server) as quick:
        slow[1].write(head(b"Content-Length: 500000") + bytes(100_000))
        await until(lambda: server._limits.bodies.byte_count >= 100_000)
        quick[1].write(head(b"Content-Length: 140000") + bytes(140_000))
        assert (await answer(quick)).endswith(b"140000")
        said = await slow[0].read()
        assert said.startswith(b"HTTP/1.1 503")
        assert b"Retry-After: " in said


async def test_a_body_in_parts_may_be_longer_than_all_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODIES_BYTES", 300_000)

    async def count(request: web.BaseRequest) -> web.Response:
        found = [len(part) async for part in body_in_parts(request, 3_000_000, 1 << 16)]
        return web.Response(text=str(sum(found)))

    async with served(count) as server, aiohttp.ClientSession() as session:
        for length, wanted in ((3_000_000, (200, "3000000")), (3_000_001, (413, None))):
            async with session.post(server.url, data=io.BytesIO(bytes(length))) as said:
                assert said.status == wanted[0]
                assert wanted[1] in {None, await said.text()}


async def test_what_chunks_cost_is_given_back_with_the_parts_that_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "BODIES_BYTES", 1_000_000)

    async def count(request: web.BaseRequest) -> web.Response:
        found = [len(part) async for part in body_in_parts(request, 3_000_000, 1 << 14)]
        return web.Response(text=str(sum(found)))

    async def lines() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield (b"a" * 18 + b"\r\n") * 1000

    async with (
        served(count) as server,
        aiohttp.ClientSession() as session,
        session.post(server.url, data=lines()) as said,
    ):
        assert (said.status, await said.text()) == (200, "2000000")


async def test_a_body_that_came_fast_may_rest_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RATE_SECONDS", 0.01)
    monkeypatch.setattr(limits, "MAX_SAVED_CHECKS", 1000)
    checked: list[Connection] = []
    check = Connection.check_rate

    def checking(connection: Connection) -> None:
        checked.append(connection)
        check(connection)

    monkeypatch.setattr(Connection, "check_rate", checking)
    async with served() as server, connected(server) as steady:
        steady[1].write(head(b"Content-Length: 300000") + bytes(100_000))
        await until(lambda: len(checked) >= 3)
        steady[1].write(bytes(200_000))
        assert (await answer(steady)).endswith(b"300000")


async def test_a_body_that_takes_too_long_in_all_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "WHOLE_SECONDS", 0.1)
    async with served() as server, connected(server) as (reader, writer):
        writer.write(head(b"Content-Length: 10") + b"abc")
        assert (await reader.read()).startswith(b"HTTP/1.1 408")


async def test_frames_are_held_until_the_next_is_asked_for_and_the_slowest_socket_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FRAMES_BYTES", 200_000)
    go = asyncio.Event()

    async def echo(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for said in frames(request, socket):
            await go.wait()
            await socket.send_str(str(len(said.data)))
        return socket

    app = web.Application()
    app.add_routes([web.get("/", echo)])
    opening = handshake(
        b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", path=b"/"
    )
    async with served(app) as server, connected(server) as slow, connected(server) as quick:
        held = server._limits.frames
        for reader, writer in (slow, quick):
            writer.write(opening)
            assert b"101" in await reader.readuntil(END)
        slow[1].write(frame(bytes(50_000), 2) + frame(bytes(1000), length=90_000))
        await until(lambda: 51_000 < held.byte_count < 52_000)
        quick[1].write(frame(bytes(160_000), 2))
        assert await slow[0].read() == b"\x88\x02" + (1013).to_bytes(2)
        go.set()
        assert await quick[0].readexactly(8) == b"\x81\x06160000"
        await until(lambda: held.byte_count == 0)


async def test_a_socket_that_only_says_that_it_lives_is_held_for_nothing() -> None:
    async def listen(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for said in frames(request, socket):
            await socket.send_str(str(len(said.data)))
        return socket

    app = web.Application()
    app.add_routes([web.get("/", listen)])
    async with (
        served(app) as server,
        aiohttp.ClientSession() as session,
        session.ws_connect(server.url, autoping=False) as socket,
    ):
        for _ in range(10):
            await socket.ping(b"?")
            assert (await socket.receive()).data == b"?"
            await socket.pong()
        await until(lambda: server._limits.frames.byte_count == 0)
        await socket.send_str("abc")
        assert (await socket.receive()).data == "3"


async def test_a_fault_of_the_handlers_is_logged_and_a_refusal_is_its_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(request: web.BaseRequest) -> web.Response:
        if request.path == "/refused":
            raise RefusedError(409, "not now")
        raise ValueError("a secret")

    async with served(fail) as server, aiohttp.ClientSession() as session:
        async with session.get(server.url + "/refused") as said:
            assert (said.status, await said.text()) == (409, "not now\n")
        assert not caplog.records
        async with session.get(server.url) as said:
            assert said.status == 500
            assert "secret" not in await said.text()
        assert "a secret" in caplog.text
        caplog.clear()


async def test_a_port_in_use_is_one_line() -> None:
    async with served() as server:
        port = urlsplit(server.url).port
        assert port
        other = Server(length, Limits())
        with pytest.raises(ListenError) as raised:
            await other.listen("127.0.0.1", port, who="the other", instead="set OTHER_PORT")
        await other.stop(0)
    said = f"the other can't listen on 127.0.0.1:{port} (Address already in use): set OTHER_PORT"
    assert str(raised.value) == said
