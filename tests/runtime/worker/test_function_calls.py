"""`call_function` against a server that writes down what it is asked: what goes out, and what comes back."""

import asyncio
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import nuclio_sdk
import pytest

from headrace.runtime.wire.records import SentRecord
from headrace.runtime.worker.api.acks import WorkerAcks
from headrace.runtime.worker.api.context import Platform
from headrace.runtime.worker.api.event import StreamEvent
from headrace.runtime.worker.api.function_calls import build_request
from headrace.runtime.worker.api.partition_view import PartitionView
from headrace.runtime.worker.api.sdk import TriggerInfo

NO_ACKS = cast("WorkerAcks", None)


@dataclass
class Server:
    """Answers each request with `status`, `headers` and `body`."""

    address: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            told.asked.append((self.command, self.path, dict(self.headers.items()), body))
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(told.body)

        do_GET = do_POST = do_PUT = answer  # noqa: N815  # the server's names

        def log_message(self, *_: object) -> None:
            """No lines on the test's output."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        told.address = f"127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield told
        listening.shutdown()
        thread.join()


@contextmanager
def silent() -> Iterator[str]:
    """Takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def platform(**addresses: str) -> Platform:
    return Platform(NO_ACKS, "shop", addresses)


def event(**parts: Any) -> Any:
    return nuclio_sdk.Event(**parts)


def test_an_event_goes_to_the_function_and_its_answer_comes_back(server: Server) -> None:
    server.status, server.body = 201, b'{"made": 7}'
    server.headers = {"Content-Type": "application/json", "X-Count": "3"}
    asked = event(method="PUT", path="/orders?x=1", body={"amount": 3}, headers={"X-Who": "Ada"})
    answer = platform(orders=server.address).call_function("orders", asked)
    assert isinstance(answer, nuclio_sdk.Response)
    assert (answer.status_code, answer.body, answer.content_type) == (201, {"made": 7}, "application/json")
    assert answer.headers["x-count"] == "3"
    ((method, path, headers, body),) = server.asked
    assert (method, path, json.loads(body)) == ("PUT", "/orders?x=1", {"amount": 3})
    assert headers["Content-Type"] == "application/json"
    assert (headers["X-Who"], headers["X-Nuclio-Target"]) == ("Ada", "orders")


@pytest.mark.parametrize(
    ("content_type", "body", "found"),
    [
        ("text/plain", b"hello", b"hello"),
        ("application/json", b"[1]", [1]),
        ("application/json", b"no json", b"no json"),
        ("application/json", b"[" * 100_000, b"[" * 100_000),
        (None, b"", b""),
    ],
)
def test_a_body_is_parsed_where_it_is_json(
    server: Server, content_type: str | None, body: bytes, found: object
) -> None:
    server.headers, server.body = {"Content-Type": content_type} if content_type else {}, body
    assert platform(f=server.address).call_function("f", event()).body == found


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_an_answer_of_whatever_status_is_an_answer(server: Server, status: int) -> None:
    server.status = status
    assert platform(f=server.address).call_function("f", event()).status_code == status


async def test_many_calls_are_under_way_while_the_loop_turns(server: Server) -> None:
    server.body = b"hello"
    calls = [platform(f=server.address).call_function_async("f", event()) for _ in range(50)]
    assert {answer.body for answer in await asyncio.gather(*calls)} == {b"hello"}


async def test_a_call_that_waits_holds_up_nothing() -> None:
    with silent() as address:
        calls = [
            asyncio.create_task(platform(f=address).call_function_async("f", event())) for _ in range(50)
        ]
        await asyncio.sleep(0)
        threads = [thread for thread in threading.enumerate() if thread.name == "call_function"]
        assert len(threads) == 50
        assert all(thread.daemon for thread in threads)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_what_a_call_raises_comes_through_the_thread() -> None:
    with pytest.raises(ConnectionError, match="function f can't be reached"):
        await platform(f="127.0.0.1:1").call_function_async("f", event())


@pytest.mark.parametrize(
    ("parts", "method", "body", "content_type"),
    [
        ({}, "GET", None, "text/plain"),
        ({"body": "grüße"}, "POST", "grüße".encode(), "text/plain"),
        ({"body": b"\xff", "content_type": "image/png"}, "POST", b"\xff", "image/png"),
        ({"body": bytearray(b"ab"), "method": "PUT"}, "PUT", b"ab", "text/plain"),
        ({"body": {"a": 1}, "content_type": "text/plain"}, "POST", b'{"a": 1}', "application/json"),
        ({"body": [1]}, "POST", b"[1]", "application/json"),
        ({"body": b"x", "headers": {"content-type": "text/csv"}}, "POST", b"x", "text/csv"),
    ],
)
def test_what_an_event_lacks_has_a_default(
    parts: dict[str, Any], method: str, body: bytes | None, content_type: str
) -> None:
    request = build_request("f", event(**parts))
    assert (request.method, request.target, request.body) == (method, "/", body)
    assert request.headers["Content-Type"] in {content_type, content_type.encode()}
    assert len([name for name in request.headers if name.lower() == "content-type"]) == 1


@pytest.mark.parametrize("headers", [None, {}])
def test_an_event_without_headers_is_sent(headers: object) -> None:
    request = build_request("f", SimpleNamespace(body=b"x", headers=headers))
    assert request.headers == {"X-Nuclio-Target": "f", "Content-Type": "text/plain"}
    assert build_request("f", SimpleNamespace()).target == "/"


def test_the_headers_of_the_event_stay_as_they_are(server: Server) -> None:
    headers = {"X-Who": "Ada", "content-length": "99", "Transfer-Encoding": "chunked", "X-Nuclio-Target": "g"}
    before = dict(headers)
    platform(f=server.address).call_function("f", event(body=b"abc", headers=headers))
    assert headers == before
    ((_, _, sent, body),) = server.asked
    assert body == b"abc"
    assert sent["Content-Length"] == "3"
    assert (sent["X-Nuclio-Target"], "Transfer-Encoding" in sent) == ("g", False)


def test_what_a_browser_says_of_its_page_is_not_passed_on(server: Server) -> None:
    page = {"Host": "evil.example", "origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    headers = {**page, "SEC-FETCH-MODE": "cors", "X-Origin": "kept"}
    platform(f=server.address).call_function("f", event(body=b"abc", headers=headers))
    ((_, _, sent, _),) = server.asked
    assert (sent["Host"], sent["X-Origin"]) == (server.address, "kept")
    assert not {"origin", "sec-fetch-site", "sec-fetch-mode"} & {name.lower() for name in sent}


def test_a_record_of_a_topic_is_passed_on(server: Server) -> None:
    view = PartitionView("orders", 0, TriggerInfo("kafka-cluster", "t"))
    record = StreamEvent(SentRecord(41, 0, 0, b"k", b"\xffbody", b""), view, 1)
    record.headers = {"trace": b"1", "none": None}
    platform(f=server.address).call_function("f", record)
    ((method, path, sent, body),) = server.asked
    assert (method, path, body) == ("POST", "/orders", b"\xffbody")
    assert (sent["trace"], "none" in sent) == ("1", False)


def test_a_path_is_written_as_http_has_it() -> None:
    assert build_request("f", event(path="/a b/ü?x=%20&y=1")).target == "/a%20b/%C3%BC?x=%20&y=1"
    assert build_request("f", event(path="/x\r\nHost: y")).target == "/x%0D%0AHost:%20y"


def test_what_http_cannot_say_is_one_line(server: Server) -> None:
    with pytest.raises(ValueError, match="only ASCII names"):
        build_request("f", event(headers={"grün": "1"}))
    with pytest.raises(ValueError, match="Invalid header value"):
        platform(f=server.address).call_function("f", event(headers={"a": "1\r\nb: 2"}))
    assert server.asked == []


def test_silence_ends_by_the_timeout() -> None:
    with silent() as address, pytest.raises(TimeoutError) as raised:
        platform(f=address).call_function("f", event(), timeout=0.2)
    assert str(raised.value) == f"f at {address} said nothing for 0.2 s"


def test_a_refused_call_says_where() -> None:
    with socket.socket() as bound:  # not listening: refuses
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(ConnectionError) as raised:
            platform(f=address).call_function("f", event())
    assert str(raised.value) == f"function f can't be reached at {address} (Connection refused)"


def _hang_up(listening: socket.socket) -> None:
    listening.accept()[0].close()


def test_what_speaks_no_http_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=_hang_up, args=[listening])
        thread.start()
        with pytest.raises(ConnectionError, match="function f can't be reached at"):
            platform(f=address).call_function("f", event())
        thread.join()


@pytest.mark.parametrize("name", ["nobody.invalid", "a..b", "x" * 80, "no name", "ü"])
def test_a_name_that_nobody_knows_says_who_is_here(name: str) -> None:
    with pytest.raises(ConnectionError) as raised:
        platform(orders="127.0.0.1:1", audit="127.0.0.1:2").call_function(name, event())
    line = str(raised.value)
    assert line.startswith(f"function {name} can't be reached at nuclio-shop-{name}:8080 (")
    assert line.endswith("those that run together here and have an http trigger: audit, orders")
    assert "\n" not in line
    assert raised.value.__cause__ is None


def test_a_service_goes_before_the_function_of_that_name(server: Server) -> None:
    with pytest.raises(ConnectionError, match=r"at 127\.0\.0\.1:8080:8080 \("):
        platform(f=server.address).call_function("f", event(), service_name_override="127.0.0.1:8080")
    assert server.asked == []


def test_a_function_on_any_free_port_is_to_have_one() -> None:
    with pytest.raises(ConnectionError, match="give its http trigger a port"):
        platform(f="127.0.0.1:0").call_function("f", event())
