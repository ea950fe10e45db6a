"""`headrace partition`, against an admin server in another thread: what each answer says."""

import asyncio
import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result
from fake_processor import FakeProcessor
from refusal import refused

from headrace.runtime.admin.server import admin_server
from headrace.runtime.admin.status_source import NotHaltedError
from headrace.runtime.cli.running.partition import UnknownPartitionError, partition
from headrace.runtime.errors import HeadraceError, UsageError
from headrace.runtime.web.addresses import TcpAddress


@contextmanager
def serving(processor: FakeProcessor) -> Iterator[str]:
    """The admin server's URL, served by a thread with a loop of its own."""
    loop = asyncio.new_event_loop()
    found: list[str] = []
    is_up, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with admin_server(processor, TcpAddress("127.0.0.1", 0)) as url:
            found.append(url)
            is_up.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    is_up.wait(120)
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture
def processor() -> FakeProcessor:
    return FakeProcessor({3, 4}, {3})


@pytest.fixture
def url(processor: FakeProcessor) -> Iterator[str]:
    with serving(processor) as found:
        yield found


def run(*arguments: str, admin: str | None = None) -> Result:
    return CliRunner().invoke(partition, arguments, env={"HEADRACE_ADMIN": admin})


@pytest.mark.parametrize("action", ["retry", "skip"])
def test_an_action_prints_what_was_done(processor: FakeProcessor, url: str, action: str) -> None:
    result = run(action, "orders/3", admin=url)
    assert (result.exit_code, result.stdout) == (0, f"orders/3: offset 41 gets {action}\n")
    assert processor.acted == [(action, "orders", 3)]


def test_the_address_may_be_an_option_with_a_slash_at_its_end(processor: FakeProcessor, url: str) -> None:
    assert run("skip", "orders/3", "--admin", url + "/").exit_code == 0
    assert processor.acted == [("skip", "orders", 3)]


def test_each_refusal_is_a_line_with_an_exit_code(url: str) -> None:
    assert "orders/4 is not halted" in refused(run("skip", "orders/4", admin=url), NotHaltedError, 5)
    line = refused(run("skip", "a.b-c_d/12", admin=url), UnknownPartitionError, 4)
    assert line == "a.b-c_d/12 is not among the partitions of this function"
    assert refused(run("retry", "broken/0", admin=url), HeadraceError, 1) == "the broker is away"


@pytest.mark.parametrize(
    "place", ["orders", "orders/", "/3", "orders/x", "orders/-1", "/a/3", "a//3", "a b/3", "å/1"]
)
def test_a_place_that_is_none_is_a_usage_error(place: str) -> None:
    result = run("skip", place)
    assert result.exit_code == 2
    assert "is not TOPIC/PARTITION, as in orders/3" in result.stderr


@pytest.mark.parametrize("admin", ["127.0.0.1:8081", "http://", "ftp://x", "http://x:99999", "http://[", "x"])
def test_an_address_that_is_no_url_is_a_usage_error(admin: str) -> None:
    assert repr(admin) in refused(run("skip", "orders/3", admin=admin), UsageError, 2)


def test_nothing_listening_is_one_line() -> None:
    with socket.socket() as silent:  # bound, not listening: refuses
        silent.bind(("127.0.0.1", 0))
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        line = refused(run("retry", "orders/3", admin=where), HeadraceError, 1)
    assert line.startswith(f"no running function has its admin server at {where}")
    assert "--admin" in line


def test_a_server_that_stays_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.cli.running.admin_client._ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "did not answer in 0.3 s" in refused(run("skip", "orders/3", admin=where), HeadraceError, 1)


def test_some_other_web_server_is_told_apart() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        thread = threading.Thread(target=other.handle_request)
        thread.start()
        where = f"http://127.0.0.1:{other.server_port}"
        line = refused(run("skip", "orders/3", admin=where), HeadraceError, 1)
        thread.join()
    assert line.startswith(f"what answers at {where} is no admin server")
