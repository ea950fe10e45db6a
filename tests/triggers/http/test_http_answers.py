"""What a client gets for what a handler returns: Nuclio's documented forms, one by one."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from http_function import http_function
from worker_bench import until

FORMS = {
    "'hello'": (200, "text/plain", b"hello"),
    "(201, 'made')": (201, "text/plain", b"made"),
    "(202, {'a': 1})": (202, "application/json", b'{"a": 1}'),
    "{'a': [1]}": (200, "application/json", b'{"a": [1]}'),
    "[1, 2]": (200, "application/json", b"[1, 2]"),
    "b'\\xff\\x00'": (200, "text/plain", b"\xff\x00"),
    "None": (200, "text/plain", b""),
    "context.Response(body='x', status_code=418, content_type='a/b')": (418, "a/b", b"x"),
    "context.Response(body={'a': 1})": (200, "application/json", b'{"a": 1}'),
    "(404, 'nothing here')": (404, "text/plain", b"nothing here"),
    "(503, 'later')": (503, "text/plain", b"later"),
    "('a' + str(n) for n in range(3))": (200, "text/plain", b"a0a1a2"),
    "context.Response(body=(c for c in 'xyz'), content_type='a/b', status_code=206)": (206, "a/b", b"xyz"),
    "(x for x in ())": (200, "text/plain", b""),
}


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_each_form_of_a_result_is_answered_as_documented(tmp_path: Path, kind: str) -> None:
    handler = f"""
        {kind} handler(context, event):
            return eval(event.body.decode(), dict(context=context))
    """
    async with http_function(tmp_path, handler) as f:
        for form, (status, content_type, body) in FORMS.items():
            said = await f.ask(method="POST", data=form)
            assert (said.status, said.headers["Content-Type"], said.body) == (status, content_type, body), (
                form
            )


async def test_headers_come_through_but_for_those_of_the_connection(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            headers = {"X-Number": 7, "x-text": "\\u00e9", "Content-Length": "999", "Connection": "upgrade"}
            return context.Response(headers=headers, body="four")
    """
    async with http_function(tmp_path, handler) as f:
        said = await f.ask()
        assert (said.body, said.headers["Content-Length"]) == (b"four", "4")
        assert (said.headers["X-Number"], said.headers["X-Text"]) == ("7", "\u00e9")
        assert said.headers["Server"] == "headrace"
        assert "Connection" not in said.headers


@pytest.mark.parametrize(
    "result",
    [
        "context.Response(headers={'x': 'a\\r\\nSet-Cookie: b'})",
        "context.Response(headers={'gr\\u00fcn': 'yes'})",
        "(1000, 'x')",
        "{'a': object()}",
    ],
)
async def test_what_http_cannot_say_is_500_and_a_line_in_the_log(
    tmp_path: Path, result: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with http_function(tmp_path, f"def handler(context, event):\n    return {result}") as f:
        said = await f.ask("/x?y=1")
        assert said.status == 500
        assert "Set-Cookie" not in said.headers
        await until(lambda: "GET /x?y=1" in caplog.text)


async def test_a_handler_that_raises_is_500_without_a_word_of_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def handler(context, event):
            raise ValueError("the password is 1234")
    """
    async with http_function(tmp_path, handler) as f:
        said = await f.ask()
        assert (said.status, said.body) == (500, b"the handler failed\n")
        await until(lambda: "GET / failed" in caplog.text)
        assert "ValueError: the password is 1234" in caplog.text
        assert (f.counted("handled_failure"), (await f.ask()).status) == (1, 500)


WAIT, WAIT_ASYNC = "wait_for('go')", "while not exists('go'): await asyncio.sleep(0.005)"
ENDLESS = """
    import itertools
    {kind} handler(context, event):
        try:
            for n in itertools.count():
                write("part")
                yield "x" * 100_000
                if n == 0 and event.path == "/two":
                    {wait}
        finally:
            write("end")
"""


@pytest.mark.parametrize(("kind", "wait"), [("def", WAIT), ("async def", WAIT_ASYNC)])
async def test_parts_come_as_they_are_made_no_faster_than_they_are_taken_and_end_with_the_client(
    tmp_path: Path, kind: str, wait: str
) -> None:
    async with http_function(tmp_path, ENDLESS.format(kind=kind, wait=wait)) as f:
        reader, writer = await f.connect()
        writer.write(b"GET /two HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        await reader.readexactly(100_000)  # while the handler waits
        assert f.lines() == ["part"]
        (tmp_path / "go").touch()
        await until(lambda: len(f.lines()) > 10)
        before = 0
        while len(f.lines()) > before:  # until all buffers on the way are full
            before = len(f.lines())
            await asyncio.sleep(0.5)
        assert before < 500
        writer.transport.abort()
        await until(lambda: f.lines()[-1] == "end")
        await until(lambda: f.running.trigger.status().about["openRequests"] == 0)


async def test_parts_behind_headers_that_cannot_be_said_hold_up_nobody(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            if event.path == "/ok":
                return "ok"
            parts = ("x" * 100_000 for _ in range(1000))
            return context.Response(headers={"x": "a\\r\\nb"}, body=parts)
    """
    async with http_function(tmp_path, handler) as f:
        assert (await f.ask()).status == 500
        assert (await f.ask("/ok")).text == "ok"


async def test_an_answer_whose_handler_fails_amid_it_is_cut_off(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            yield "begin"
            raise ValueError("no")
    """
    async with http_function(tmp_path, handler) as f:
        with pytest.raises(aiohttp.ClientPayloadError):
            await f.ask()


async def test_an_answer_whose_worker_dies_amid_it_is_cut_off(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            yield "begin"
            wait_for("go")
            os.kill(os.getpid(), signal.SIGKILL)
            yield "more"
    """
    async with http_function(tmp_path, handler) as f:
        asked = f.begin()
        await until(f.running.dispatcher.workers[0].running)
        (tmp_path / "go").touch()
        with pytest.raises(aiohttp.ClientPayloadError):
            await asked


async def test_json_is_written_as_json_writes_it(tmp_path: Path) -> None:
    async with http_function(tmp_path, "def handler(context, event):\n    return event.body") as f:
        sent = {"a": [1, None, "\u00e9"], "b": {}}
        said = await f.ask(method="POST", json=sent)
        assert json.loads(said.body) == sent
