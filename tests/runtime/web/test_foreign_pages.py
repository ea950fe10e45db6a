"""Every route of all servers of ours, asked as a page of another site would: nothing is read or changed."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from browser import browser, browsing
from fake_processor import FakeProcessor
from foreign_pages import Route, let_in, routes_of
from http_function import Function, http_function, running_http_function
from root import ROOT
from run_rows import Rows
from worker_bench import until

from headrace.functions.database.engine import open_engine
from headrace.functions.database.schema import migrate
from headrace.functions.run_tracking.backend.routes import ROUTES
from headrace.functions.run_tracking.frontier.publishing import ItemPublisher
from headrace.functions.run_tracking.frontier.service import application as frontier_application
from headrace.functions.run_tracking.frontier.sockets import Sockets
from headrace.functions.run_tracking.frontier.status import FrontierMetrics, Health
from headrace.functions.run_tracking.settings import read_settings
from headrace.functions.run_tracking.store import tables
from headrace.runtime.admin.routes import application as admin_application
from headrace.runtime.admin.server import admin_server
from headrace.runtime.admin.token import NO_TOKEN
from headrace.runtime.embedded.ports import free_port
from headrace.runtime.embedded.v3io.api import AccessKey, Api, functions_of, serve
from headrace.runtime.embedded.v3io.store import open_store
from headrace.runtime.web.addresses import TcpAddress
from headrace.triggers.http.trigger import HEALTH_PATH
from headrace.web import Limits, Server

FUNCTIONS = sorted((ROOT / "functions").glob("*/function.yaml"))
_ALL_NODES = "SELECT count(*), sum(mtime_ns) FROM nodes"
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")


def triggers_of(path: Path) -> dict[str, Any]:
    triggers = yaml.safe_load(path.read_text())["spec"]["triggers"]
    return {name: trigger for name, trigger in triggers.items() if trigger["kind"] == "http"}


@pytest.mark.parametrize("path", FUNCTIONS, ids=lambda path: path.parent.name)
def test_all_functions_of_ours_that_answer_requests_have_the_protection(path: Path) -> None:
    for name, trigger in triggers_of(path).items():
        assert trigger["attributes"]["crossOriginProtection"] is True, name


async def test_the_admin_server() -> None:
    processor = FakeProcessor({3}, {3})
    known = admin_application(processor, str, NO_TOKEN, [])
    routes = routes_of(known, topic="orders", partition="3", action="skip")
    for host in ("127.0.0.1", "0.0.0.0"):
        async with admin_server(processor, TcpAddress(host, 0)) as url:
            there = url.replace("0.0.0.0", "127.0.0.1")
            found = await let_in(there, routes)
            assert [line for line in found if host == "127.0.0.1" or "points here" not in line] == []
    assert (processor.acted, processor.halted) == ([], {3})


async def test_the_v3io_server(tmp_path: Path) -> None:
    store, port, ended = open_store(tmp_path, ["bigdata"]), free_port(), asyncio.Event()
    task = asyncio.create_task(serve(Api(store, AccessKey("")), port, ended))
    url = f"http://127.0.0.1:{port}"
    try:
        await until_put(f"{url}/bigdata/f/there", b"kept")
        before = store.database.row(_ALL_NODES)
        places = ("/", "/bigdata/", "/bigdata/f/", "/bigdata/f/there", "/bigdata/f/new", "/none/x")
        routes = [Route(method, path) for method in METHODS for path in places]
        routes += [
            Route(method, path, (("X-v3io-function", name),))
            for name in functions_of(store)
            for method in ("PUT", "POST")
            for path in ("/bigdata/s/", "/bigdata/f/there")
        ]
        assert await let_in(url, routes, b'{"ShardCount": 1, "RetentionPeriodHours": 1}') == []
        assert store.database.row(_ALL_NODES) == before
    finally:
        ended.set()
        await task
        store.database.close()


async def until_put(url: str, data: bytes) -> None:
    """It listens in a moment."""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.put(url, data=data) as answer:
                    assert answer.status == 200
                    return
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.005)


async def test_an_http_trigger_that_is_protected(tmp_path: Path) -> None:
    attributes = {"crossOriginProtection": True}
    handler = "def handler(context, event):\n    write(event.method)\n    return 'secret'"
    async with http_function(tmp_path, handler, attributes=attributes) as f:
        routes = [Route(method, path) for method in METHODS for path in ("/", "/a/b", HEALTH_PATH)]
        assert await let_in(f.url, routes) == []
        assert f.lines() == []
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        for headers in ({}, {"Origin": f.url}, link, {"Content-Type": "text/plain"}):
            assert (await f.ask(headers=headers)).status == 200


async def test_without_a_word_an_http_trigger_answers_whom_it_likes(tmp_path: Path) -> None:
    async with http_function(tmp_path, "def handler(context, event): return 'x'") as f:
        headers = {"Origin": "http://evil.example", "Host": "evil.example", "Sec-Fetch-Site": "cross-site"}
        assert (await f.ask(headers=headers)).status == 200


async def test_pages_that_cors_allows_pass_the_protection_and_no_others(tmp_path: Path) -> None:
    cors = {"enabled": True, "allowOrigins": ["https://a.example"]}
    attributes = {"crossOriginProtection": True, "cors": cors, "allowedHosts": ["f.example"]}
    async with http_function(tmp_path, "def handler(context, event): return 'x'", attributes=attributes) as f:
        allowed = {"Origin": "https://a.example", "Sec-Fetch-Site": "cross-site"}
        preflight = {**allowed, "Access-Control-Request-Method": "PUT"}
        assert (await f.ask(headers=allowed)).status == 200
        assert (await f.ask(method="OPTIONS", headers=preflight)).status == 200
        assert (await f.ask(headers={**allowed, "Host": "f.example"})).status == 200
        for changed in ({"Origin": "https://b.example"}, {"Host": "b.example"}):
            assert (await f.ask(headers={**allowed, **changed})).status == 403
        assert (await f.ask(headers={"Sec-Fetch-Site": "cross-site"})).status == 403  # an image, say


_OWN_PAGE = """
    PAGE = "<script>fetch('own', {method: 'POST', body: 'x'})</script>"

    def handler(context, event):
        if event.path != "/favicon.ico":
            write(f"{event.method} {event.path}")
        return context.Response(body=PAGE, content_type="text/html", status_code=200)
"""
# When all has failed, it has its reader follow a link.
_FOREIGN_PAGE = """<script>
const url = "URL";
Promise.allSettled([
  fetch(`${url}/evil`, {method: "POST", mode: "no-cors", body: "x"}),
  fetch(`${url}/evil`, {method: "DELETE"}), fetch(`${url}/evil`), fetch(`${url}/evil`, {mode: "no-cors"}),
  new Promise((done) => new WebSocket(url.replace("http", "ws") + "/evil").onerror = done),
  new Promise((done) => Object.assign(new Image(), {src: `${url}/evil`, onerror: done})),
]).then(() => location = url);
</script>"""


async def test_in_a_real_browser_a_page_reaches_its_own_server_and_no_other(tmp_path: Path) -> None:
    browser()
    async with (
        http_function(tmp_path, _OWN_PAGE, attributes={"crossOriginProtection": True}) as f,
        page_elsewhere(_FOREIGN_PAGE.replace("URL", f.url)) as url,
    ):
        with browsing(url, tmp_path / "home"):
            await until(lambda: "POST /own" in f.lines())
        assert f.lines() == ["GET /", "POST /own"]


@asynccontextmanager
async def page_elsewhere(text: str) -> AsyncIterator[str]:
    """On another port of this machine."""

    async def page(_: web.BaseRequest) -> web.Response:
        return web.Response(text=text, content_type="text/html")

    server = await asyncio.get_running_loop().create_server(web.Server(page), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


@asynccontextmanager
async def running(
    name: str, trigger: str, folder: Path, variables: Mapping[str, str]
) -> AsyncIterator[Function]:
    """One http trigger of a function of ours, without Kafka and Spark."""
    document = yaml.safe_load((ROOT / "functions" / name / "function.yaml").read_text())
    spec = document["spec"]
    spec["triggers"] = {trigger: spec["triggers"][trigger]}
    spec["triggers"][trigger]["attributes"]["port"] = 0
    spec["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    spec.pop("outputs", None)
    del spec["spark"]
    folder.mkdir()
    (folder / "function.yaml").write_text(yaml.safe_dump(document))
    async with running_http_function(folder) as it:
        yield it


async def test_the_backend_of_run_tracking(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'it.sqlite'}"
    engine = open_engine(database)
    migrate(engine, tables.MIGRATIONS)
    rows = Rows(engine)
    rows.run("r", experiment_id=rows.experiment("e"))
    rows.tag("t", "r")

    def state() -> list[Any]:
        return [rows.all(table) for table in tables.METADATA.sorted_tables]

    before = state()
    variables = {"DATABASE_URL": database, "BLOBS": str(tmp_path / "blobs")}
    async with running("run_tracking", "backend", tmp_path / "f", variables) as f:
        paths = [re.sub(r"\\(.)", r"\1", it.pattern.pattern.replace("([^/]+)", "r")) for it in ROUTES]
        routes = [Route(it.method, path.rstrip("/?") or "/") for it, path in zip(ROUTES, paths, strict=True)]
        assert await let_in(f.url, routes) == []
        assert state() == before
        assert (await f.ask("/api/v1/rest/runs/", headers={"Origin": f.url})).status == 200
        plain = {"Content-Type": "text/plain"}
        said = await f.ask("/api/v1/rest/tags/", "POST", data=b'{"name": "n"}', headers=plain)
        assert (said.status, state()) == (415, before)
    engine.dispose()


async def test_the_page_of_model_metrics(tmp_path: Path) -> None:
    variables = {"DATABASE_URL": f"sqlite:///{tmp_path / 'it.sqlite'}"}
    async with running("model_metrics", "web", tmp_path / "f", variables) as f:
        there = re.findall(r"/[\w/.]*", (await f.ask("/none")).text)  # it says which
        assert "/api/v1/models" in there
        for path in there:
            assert (await f.ask(path, headers={"Sec-Fetch-Site": "same-origin"})).status == 200
        paths = [*there, "/page.css", "/page.js", "/none"]
        assert await let_in(f.url, [Route(method, path) for method in METHODS for path in paths]) == []


@asynccontextmanager
async def frontier(folder: Path, published: list[bytes]) -> AsyncIterator[tuple[str, list[Route]]]:
    """Its URL, and its routes."""
    port = free_port()
    settings = read_settings({"FRONTIER_PORT": str(port), "BLOBS": str(folder / "blobs")})

    def produce(topic: str, value: bytes, *, key: str, output: str) -> None:  # as Produce says
        published.append(value)

    publisher, counts = ItemPublisher(produce, "t", "kafka", 5.0), FrontierMetrics()
    app = frontier_application(
        settings, Sockets(publisher, counts, settings.run_bounds), Health(publisher, counts, ())
    )
    server = Server(app, Limits())
    await server.listen(settings.frontier_host, port, who="the frontier", instead="")
    try:
        yield server.url, routes_of(app, run_id="r", key="r/a", path="metrics", end="/")
    finally:
        await server.stop(0)


async def test_the_frontier_of_run_tracking(tmp_path: Path) -> None:
    published: list[bytes] = []
    async with frontier(tmp_path, published) as (url, routes):
        assert await let_in(url, routes, b'{"run_id": "r", "artifact_path": "a"}') == []
        async with aiohttp.ClientSession(url) as session:
            async with session.post(
                "/api/v1/rest/artifacts/presign", json={"run_id": "r", "artifact_path": "a"}
            ) as answer:
                signed = (await answer.json())["upload_url"]
            assert await let_in("", [Route("PUT", signed)]) == []
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect("/api/v1/ws/runs/r", origin="http://evil.example")
            assert refused.value.status == 403
            for origin in (None, url):
                async with session.ws_connect("/api/v1/ws/runs/r", origin=origin) as socket:
                    await socket.send_str("{}")
                    assert "error" in await socket.receive_str()
    assert published == []
    assert not any(path.is_file() and path.parent.name == "r" for path in (tmp_path / "blobs").rglob("*"))
