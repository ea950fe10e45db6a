"""Clients that are malformed, huge, slow or many, workers that die, and stops: each has its answer."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from http_function import Function, http_function
from worker_bench import kill_worker_process, until

from headrace.runtime.web import limits
from headrace.triggers.http import requests

WAITS = """
    def handler(context, event):
        write(event.path)
        wait_for("go")
        return "done"
"""
AWAITS = """
    async def handler(context, event):
        write(event.path)
        while not exists("go"):
            await asyncio.sleep(0.005)
        return "done"
"""
MALFORMED = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "no method": b"/ HTTP/1.1\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost: x\r\nbroken\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length and chunks": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length that is none": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "a chunk that is none": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a NUL in a header": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
    "a huge line": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a huge header": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "a thousand headers": b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(1000)) + b"\r\n",
}


async def in_pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def still_answers(f: Function) -> None:
    assert (await f.ask("/ok")).status == 200


async def test_malformed_requests_are_4xx_and_no_event(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.path)
    """
    async with http_function(tmp_path, handler) as f:
        for name, data in MALFORMED.items():
            async with asyncio.timeout(300):
                said = await f.send(data)
            assert (said[:5], said[9:10]) == (b"HTTP/", b"4"), (name, said)
            assert b"Traceback" not in said
        await still_answers(f)
        assert f.lines() == ["/ok"]


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_that_is_too_long_is_413(tmp_path: Path, is_chunked: bool) -> None:
    handler = "def handler(context, event):\n    return str(event.size)"
    async with http_function(tmp_path, handler, attributes={"maxRequestBodySize": 1000}) as f:
        assert (await f.ask(method="POST", data=b"x" * 1000)).text == "1000"
        data = b"x" * 2_000_000

        said = await f.ask(method="POST", data=in_pieces(data) if is_chunked else io.BytesIO(data))
        assert said.status == 413
        await still_answers(f)


async def test_a_body_that_is_compressed_stays_so(tmp_path: Path) -> None:
    handler = "def handler(context, event):\n    return event.body"
    async with http_function(tmp_path, handler) as f:
        headers = {"Content-Encoding": "gzip"}
        assert (
            await f.ask(method="POST", data=b"\x1f\x8bno gzip", headers=headers)
        ).body == b"\x1f\x8bno gzip"


async def test_a_slow_body_is_408_and_a_slow_head_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.triggers.http.trigger.IDLE_SECONDS", 0.5)
    monkeypatch.setattr("headrace.runtime.web.payloads.WHOLE_SECONDS", 0.5)
    async with http_function(tmp_path, "def handler(context, event):\n    write(event.path)") as f:
        body = await f.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        assert body.startswith(b"HTTP/1.1 408")
        assert b"Connection: close" in body
        assert await f.send(b"GET / HTTP/1.1\r\nHost: ") == b""
        await still_answers(f)
        assert f.lines() == ["/ok"]


async def test_a_thousand_idle_connections_keep_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_MAX_CONNECTIONS", 100)
    async with http_function(tmp_path, "def handler(context, event): return 'x'") as f:
        idle = [await f.connect() for _ in range(1000)]
        await still_answers(f)
        ended = [reader.at_eof() or bool(await reader.read() == b"") for reader, _ in idle[:800]]
        assert all(ended)
        for _, writer in idle:
            writer.close()


@pytest.mark.parametrize("handler", [WAITS, AWAITS])
async def test_whoever_finds_no_worker_in_time_is_503_and_never_begun_with(
    tmp_path: Path, handler: str
) -> None:
    async with http_function(tmp_path, handler, workerAvailabilityTimeoutMilliseconds=200) as f:
        first = f.begin("/first")
        await until(lambda: f.lines() == ["/first"])
        others = [f.begin(f"/{n}") for n in range(20)]
        assert {said.status for said in await asyncio.gather(*others)} == {503}
        (tmp_path / "go").touch()
        assert (await first).text == "done"
        await still_answers(f)
        assert f.lines() == ["/first", "/ok"]
        assert f.counted("refused") == 20


async def test_with_a_wait_of_0_a_free_worker_answers_and_a_busy_one_refuses(tmp_path: Path) -> None:
    async with http_function(tmp_path, WAITS, workerAvailabilityTimeoutMilliseconds=0) as f:
        first = f.begin("/first")
        await until(lambda: f.lines() == ["/first"])
        assert {(await f.ask("/more")).status for _ in range(5)} == {503}
        (tmp_path / "go").touch()
        assert (await first).status == 200
        for _ in range(20):
            await still_answers(f)


async def test_more_than_may_wait_are_503_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_WAITING", 10)
    async with http_function(tmp_path, WAITS) as f:
        first = f.begin("/first")
        await until(lambda: f.lines() == ["/first"])
        asked = [f.begin("/more") for _ in range(30)]
        await until(lambda: sum(task.done() for task in asked) >= 20)
        (tmp_path / "go").touch()
        found = [said.status for said in await asyncio.gather(first, *asked)]
        assert found.count(200) in {10, 11, 12}
        assert found.count(503) == 31 - found.count(200)


@pytest.mark.parametrize("handler", [WAITS, AWAITS])
async def test_a_handler_that_takes_too_long_is_408(tmp_path: Path, handler: str) -> None:
    async with http_function(tmp_path, handler, spec={"eventTimeout": "300ms"}) as f:
        assert (await f.ask("/slow")).status == 408
        (tmp_path / "go").touch()
        await still_answers(f)


async def test_a_worker_that_dies_amid_a_request_is_502_and_its_request_is_not_repeated(
    tmp_path: Path,
) -> None:
    async with http_function(tmp_path, WAITS, numWorkers=2) as f:
        doomed = f.begin("/doomed")
        await until(lambda: f.lines() == ["/doomed"])
        worker = next(worker for worker in f.running.dispatcher.workers if worker.running())
        kill_worker_process(worker)
        assert (await doomed).status == 502
        (tmp_path / "go").touch()
        await still_answers(f)
        assert f.lines() == ["/doomed", "/ok"]


async def test_what_waits_at_a_worker_that_dies_is_answered_by_the_next(tmp_path: Path) -> None:
    async with http_function(tmp_path, WAITS) as f:
        f.running.dispatcher.run_sizer.ns_per_record = 1  # as if handlers had been quick
        doomed = f.begin("/doomed")
        await until(lambda: f.lines() == ["/doomed"])
        asked = [f.begin(f"/{n}") for n in range(5)]
        await until(lambda: len(f.running.dispatcher.workers[0].in_flight) == 6)
        (tmp_path / "go").touch()
        kill_worker_process(f.running.dispatcher.workers[0])
        assert {said.status for said in await asyncio.gather(*asked)} == {200}
        assert (await doomed).status in {200, 502}  # it may have ended just before


async def test_a_client_that_has_gone_is_not_begun_with(tmp_path: Path) -> None:
    async with http_function(tmp_path, WAITS) as f:
        first = f.begin("/first")
        await until(lambda: f.lines() == ["/first"])
        _, writer = await f.connect()
        writer.write(b"GET /gone HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: f.running.trigger.status().about["openRequests"] == 2)
        writer.transport.abort()
        await until(lambda: f.running.trigger.status().about["openRequests"] == 1)
        (tmp_path / "go").touch()
        assert (await first).status == 200
        await still_answers(f)
        assert f.lines() == ["/first", "/ok"]


async def test_a_stop_finishes_what_runs_refuses_the_rest_and_takes_no_more(tmp_path: Path) -> None:
    async with http_function(tmp_path, WAITS) as f:
        first = f.begin("/first")
        await until(lambda: f.lines() == ["/first"])
        waiting = [f.begin("/more") for _ in range(5)]
        await until(lambda: f.running.trigger.status().about["openRequests"] == 6)
        stop = asyncio.create_task(f.running.stop())
        for said in await asyncio.gather(*waiting):
            assert (said.status, said.headers["Connection"]) == (503, "close")
        with pytest.raises(aiohttp.ClientConnectorError):
            await f.ask("/late")
        (tmp_path / "go").touch()
        assert (await first).text == "done"
        await stop
        assert f.lines() == ["/first"]


async def test_what_outlasts_a_stop_is_503(tmp_path: Path) -> None:
    async with http_function(tmp_path, WAITS, workerTerminationTimeout="200ms") as f:
        first = f.begin("/first")
        await until(lambda: f.lines() == ["/first"])
        stop = asyncio.create_task(f.running.stop())
        assert (await first).status == 503
        await stop


async def test_an_answer_in_parts_that_outlasts_a_stop_is_cut_off(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            yield "begin"
            wait_for("never")
    """
    async with http_function(tmp_path, handler, workerTerminationTimeout="200ms") as f:
        reader, writer = await f.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"begin")
        await f.running.stop()
        assert not (await reader.read()).endswith(b"0\r\n\r\n")
        writer.close()


async def test_a_port_in_use_is_a_line_that_says_so(tmp_path: Path) -> None:
    from headrace.runtime.errors import UsageError

    (tmp_path / "b").mkdir()
    async with http_function(tmp_path, "def handler(context, event): pass") as f:
        port = int(f.url.rpartition(":")[2])
        with pytest.raises(
            UsageError, match=rf"trigger web can't listen on 127.0.0.1:{port} .*in use.*--set"
        ):
            async with http_function(
                tmp_path / "b", "def handler(context, event): pass", attributes={"port": port}
            ):
                pass


async def test_whoever_looks_at_any_moment_disturbs_no_answer(tmp_path: Path) -> None:
    """A commit, a warning or a status may take in at any time what a worker has done."""
    handler = """
        def handler(context, event):
            return "hello"
    """
    async with http_function(tmp_path, handler, numWorkers=2) as f:

        async def look() -> None:
            while True:
                f.running.dispatcher.sync_progress()
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        for _ in range(20):
            answers = await asyncio.gather(*(f.ask() for _ in range(50)))
            assert {(said.status, said.body) for said in answers} == {(200, b"hello")}
        looking.cancel()
        assert [worker.restarts for worker in f.running.dispatcher.workers] == [0, 0]
