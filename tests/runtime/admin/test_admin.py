"""The admin server over HTTP: what operators and probes ask, and what a foreign page may not."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import aiohttp
import pytest
from admin_asked import JSON, ask
from fake_processor import FakeProcessor
from yarl import URL

from headrace.runtime.admin.server import MOST_CONNECTIONS, admin_server
from headrace.runtime.admin.status_source import Action, NotHaltedError
from headrace.runtime.admin.token import AdminToken
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.errors import HeadraceError
from headrace.runtime.processor.replica import Replica
from headrace.runtime.processor.supervisor import Supervisor
from headrace.runtime.web.addresses import TcpAddress

if TYPE_CHECKING:
    from headrace.runtime.processor.options import RunOptions


@asynccontextmanager
async def served(processor: FakeProcessor) -> AsyncIterator[str]:
    async with admin_server(processor, TcpAddress("127.0.0.1", 0)) as url:
        yield url


@pytest.mark.parametrize("action", ["retry", "skip"])
async def test_an_action_a_halted_partition_is_done_and_told(action: Action) -> None:
    processor = FakeProcessor({3}, {3})
    async with served(processor) as url:
        answer = await ask(url, f"/api/partitions/orders/3/{action}")
    assert answer == (200, {"done": [f"orders/3: offset 41 gets {action}"]})
    assert processor.acted == [(action, "orders", 3)]


async def test_partitions_that_are_elsewhere_or_not_halted_are_told_apart() -> None:
    async with served(FakeProcessor({3, 4}, {3})) as url:
        assert await ask(url, "/api/partitions/orders/4/skip") == (409, {"problem": "orders/4 is not halted"})
        for path in ("orders/5", "orders.eu-1/3", "nope/0"):
            status, body = await ask(url, f"/api/partitions/{path}/skip")
            assert status == 404
            assert path in body["problem"]
        assert await ask(url, "/api/partitions/broken/0/retry") == (503, {"problem": "the broker is away"})


async def test_a_name_with_a_slash_is_one_name() -> None:
    processor = FakeProcessor({3}, {3}, topic="projects/orders")
    async with served(processor) as url:
        assert (await ask(url, "/api/partitions/projects/orders/3/skip"))[0] == 200
    assert processor.acted == [("skip", "projects/orders", 3)]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "x"])
async def test_a_page_of_somebody_else_cannot_act(content_type: str) -> None:
    processor = FakeProcessor({3}, {3})
    async with served(processor) as url:
        status, body = await ask(url, "/api/partitions/orders/3/skip", headers={"Content-Type": content_type})
        preflight = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
        asked, _ = await ask(url, "/api/partitions/orders/3/skip", "OPTIONS", preflight)
    assert (status, asked) == (415, 403)
    assert "application/json" in body["problem"]
    assert processor.acted == []


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8081", "127.0.0.1.evil.example", "10.0.0.1", "[", ""]
)
async def test_a_name_that_somebody_else_has_pointed_here_is_refused(host: str) -> None:
    processor = FakeProcessor({3}, {3})
    async with served(processor) as url:
        acted, body = await ask(url, "/api/partitions/orders/3/skip", headers={**JSON, "Host": host})
        read, _ = await ask(url, "/api/status", "GET", headers={"Host": host})
    assert (acted, read) == (403, 403)
    assert body["problem"].startswith(f"{host!r} is no name of this machine's own")
    assert processor.acted == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:9", "127.8.8.8", "[::1]:9"])
async def test_this_machines_own_names_are_welcome(host: str) -> None:
    async with served(FakeProcessor({3}, {3})) as url:
        assert (await ask(url, "/api/status", "GET", headers={"Host": host}))[0] == 200


async def test_where_others_may_ask_any_name_will_do() -> None:
    async with admin_server(FakeProcessor({3}, {3}), TcpAddress("0.0.0.0", 0)) as url:
        local = url.replace("0.0.0.0", "127.0.0.1")
        assert (await ask(local, "/live", "GET", headers={"Host": "pod-1.example:8081"}))[0] == 200


@pytest.mark.parametrize("path", ["orders/x/skip", "orders/-1/skip", "orders/3/jump", "orders/skip"])
async def test_a_path_that_names_no_partition_is_not_found(path: str) -> None:
    async with served(FakeProcessor({3}, {3})) as url:
        assert (await ask(url, f"/api/partitions/{path}"))[0] == 404


async def test_reading_the_url_of_an_action_does_nothing() -> None:
    processor = FakeProcessor({3}, {3})
    async with served(processor) as url:
        assert (await ask(url, "/api/partitions/orders/3/skip", "GET"))[0] == 405
    assert processor.acted == []


async def test_an_encoded_topic_names_none() -> None:
    processor = FakeProcessor({3}, {3}, topic="projects/orders")
    async with served(processor) as url:
        for topic in ("projects%2Forders", "projects/orders%3F", "projects/orders/3/skip%3F/0/retry/"):
            path = f"{topic}/3/skip"
            where = URL(f"{url}/api/partitions/{path}", encoded=True)
            async with aiohttp.ClientSession() as session, session.post(where, json={}) as answer:
                assert answer.status == 404
    assert processor.acted == []


@pytest.mark.parametrize("topic", ["orders/3/skip?", "orders/3/skip#", "orders/3/skip%3F", "..", "a/../b"])
async def test_a_topic_cannot_say_what_a_replica_does(tmp_path: Path, topic: str) -> None:
    processor = FakeProcessor({3}, {3})
    async with admin_server(processor, tmp_path / "replica-0.sock"):
        assert await supervisor_of(tmp_path, ["replica-0"]).act("retry", topic, 0) == []
    assert processor.acted == []


async def test_idle_connections_shut_nobody_out() -> None:
    async with served(FakeProcessor({3}, {3})) as url:
        where = urlsplit(url)
        idle = [
            await asyncio.open_connection(where.hostname, where.port) for _ in range(3 * MOST_CONNECTIONS)
        ]
        assert (await ask(url, "/live", "GET"))[0] == 200
        ended = [
            await reader.read() for reader, _ in idle[: 2 * MOST_CONNECTIONS + 1]
        ]  # the oldest had to go
        for _, writer in idle:
            writer.close()
    assert ended == [b""] * (2 * MOST_CONNECTIONS + 1)


@pytest.mark.parametrize("begun", [b"", b"GET /live HT", b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"])
async def test_a_connection_that_falls_silent_is_ended(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.admin.server.IDLE_SECONDS", 0.3)
    async with served(FakeProcessor({3}, {3})) as url:
        where = urlsplit(url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(begun)
        async with asyncio.timeout(60):
            said = await reader.read()
        writer.close()
    assert (b"200 OK" in said) == begun.endswith(b"\r\n\r\n")


async def test_what_a_handler_said_is_for_those_with_the_token() -> None:
    processor = FakeProcessor({3}, {3}, reason="ValueError: card 4111 is expired")
    async with admin_server(processor, TcpAddress("127.0.0.1", 0), AdminToken("t")) as url:
        _, seen = await ask(url, "/api/status", "GET")
        _, shown = await ask(url, "/api/status", "GET", {"Authorization": "Bearer t"})
    assert "4111" not in json.dumps(seen)
    assert "4111" in json.dumps(shown)


async def test_probes_are_answered() -> None:
    async with served(FakeProcessor({3}, {3})) as url:
        assert (await ask(url, "/live", "GET"))[0] == 200
        ready = await ask(url, "/ready", "GET")
    assert ready == (503, {"status": "not ready", "problems": ["orders/3 is halted"]})


def supervisor_of(folder: Path, names: list[str]) -> Supervisor:
    function = FunctionSpecOfNothing()
    options = cast("RunOptions", None)  # read when replicas start; these are served by the test
    supervisor = Supervisor([cast("FunctionSpec", function)], options)
    supervisor._replicas = [Replica(name, options, folder) for name in names]
    return supervisor


class FunctionSpecOfNothing:
    """A function without triggers."""

    name = "f"
    triggers = ()


class SlowReplica:
    """Publishes one gauge, once it may."""

    def __init__(self) -> None:
        self.asked_count = 0
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def get(self, path: str) -> bytes:
        assert path == "/metrics"
        self.asked_count += 1
        self.is_asked.set()
        await self.may_answer.wait()
        return GAUGE


GAUGE = b"# HELP a A gauge.\n# TYPE a gauge\na 1.0\n"


async def test_scrapes_of_several_replicas_at_the_same_time_wait_together(tmp_path: Path) -> None:
    supervisor, slow = supervisor_of(tmp_path, []), SlowReplica()
    supervisor._replicas = [cast("Replica", slow)]
    given_up, other = (asyncio.create_task(supervisor.metrics()) for _ in range(2))
    await slow.is_asked.wait()
    given_up.cancel()
    slow.may_answer.set()
    assert await other == GAUGE
    assert slow.asked_count == 1
    assert await supervisor.metrics() == GAUGE
    assert slow.asked_count == 2


async def test_a_supervisor_acts_through_the_replica_that_has_the_partition(tmp_path: Path) -> None:
    first, second = FakeProcessor({0, 1}, {0}), FakeProcessor({2, 3}, {2, 3})
    supervisor = supervisor_of(tmp_path, ["replica-0", "replica-1"])
    async with (
        admin_server(first, tmp_path / "replica-0.sock"),
        admin_server(second, tmp_path / "replica-1.sock"),
    ):
        assert await supervisor.act("skip", "orders", 2) == ["replica-1: orders/2: offset 41 gets skip"]
        assert await supervisor.act("retry", "orders", 7) == []
        with pytest.raises(NotHaltedError, match="replica-0: orders/1 is not halted"):
            await supervisor.act("retry", "orders", 1)
        with pytest.raises(HeadraceError, match="replica-0: the broker is away"):
            await supervisor.act("retry", "broken", 1)
    assert second.acted == [("skip", "orders", 2)]


async def test_a_replica_that_does_not_answer_is_named_where_nobody_else_has_the_partition(
    tmp_path: Path,
) -> None:
    supervisor = supervisor_of(tmp_path, ["replica-0", "replica-1"])
    async with admin_server(FakeProcessor({0, 1}, {0}), tmp_path / "replica-0.sock"):
        assert await supervisor.act("skip", "orders", 0) == ["replica-0: orders/0: offset 41 gets skip"]
        with pytest.raises(HeadraceError, match="replica-1: does not answer"):
            await supervisor.act("skip", "orders", 2)


async def test_two_replicas_with_the_partition_both_act(tmp_path: Path) -> None:
    supervisor = supervisor_of(tmp_path, ["replica-0", "replica-1"])
    async with (
        admin_server(FakeProcessor({0}, {0}), tmp_path / "replica-0.sock"),
        admin_server(FakeProcessor({0}, {0}), tmp_path / "replica-1.sock"),
    ):
        done = await supervisor.act("skip", "orders", 0)
    assert [line.split(":")[0] for line in done] == ["replica-0", "replica-1"]
