"""Routes of the admin server: /live, /ready, /metrics, /api/status, the page, and actions on a partition."""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any, cast

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from headrace.runtime.admin.status_source import Action, NotHaltedError, StatusSource
from headrace.runtime.admin.token import AdminToken
from headrace.runtime.errors import HeadraceError
from headrace.runtime.partitions.status import without_content
from headrace.runtime.web.cross_origin import CrossOriginGuard

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PART = r"(?!\.\.?(?:/|$))[A-Za-z0-9._-]+"
NAME = rf"{_PART}(?:/{_PART})*"
"""Pattern of a topic's name. Kafka's have no slash, those of other kinds may."""

_PAGE_FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}
_PAGE_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_PAGE_HEADERS = {
    # What handlers and topics are called is text, wherever it comes from.
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def application(
    source: StatusSource, why_stuck: Callable[[], str], token: AdminToken, middlewares: Sequence[Middleware]
) -> web.Application:
    """Make the server's application. `why_stuck` says why the process should be restarted, "" otherwise."""

    async def live(_: web.Request) -> web.Response:
        # Not asked of `source`, whose loop may be the one that hangs.
        problem = why_stuck()
        body = {"status": "stuck" if problem else "live", "problems": [problem] if problem else []}
        return web.json_response(body, status=503 if problem else 200)

    async def ready(_: web.Request) -> web.Response:
        problems = await source.problems()
        body = {"status": "not ready" if problems else "ready", "problems": problems}
        return web.json_response(body, status=503 if problems else 200)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=await source.metrics(), headers={"Content-Type": _METRICS_TYPE})

    async def status(request: web.Request) -> web.Response:
        found = await source.status()
        return web.json_response(_without_records(found) if token.refusal(request.headers) else found)

    async def recent(request: web.Request) -> web.Response:
        found = await source.recent()
        if token.refusal(request.headers):
            for replica in found["replicas"]:
                replica["log"] = None  # its lines may quote records
        return web.json_response(found)

    async def act(request: web.Request) -> web.Response:
        if refusal := token.refusal(request.headers):
            return _problem(401, refusal, {"WWW-Authenticate": "Bearer"})
        return await _act(source, request)

    app = web.Application(middlewares=[*middlewares, _outages])
    app.add_routes(
        [
            web.get("/live", live),
            web.get("/ready", ready),
            web.get("/metrics", metrics),
            *page_routes(),
            web.get("/api/status", status),
            web.get("/api/recent", recent),
            # Encoded names match nothing: they would be one thing here, and another behind a proxy.
            web.post(
                rf"/api/partitions/{{topic:{NAME}}}/{{partition:[0-9]{{1,9}}}}/{{action:retry|skip}}", act
            ),
        ]
    )
    return app


@web.middleware
async def _outages(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except NotHaltedError as error:
        return _problem(409, str(error))
    except HeadraceError as error:
        return _problem(503, str(error))


def guarded(guard: CrossOriginGuard) -> Middleware:
    """Return a middleware that refuses what a page of another site asks, whatever it asks for."""

    @web.middleware
    async def guarding(request: web.Request, handler: Handler) -> web.StreamResponse:
        if refusal := guard.refusal(request.method, request.headers):
            return _problem(403, refusal)
        return await handler(request)

    return guarding


def _without_records(status: dict[str, Any]) -> dict[str, Any]:
    """Drop what records hold, and handlers' errors, which may quote them: for whoever has no token."""
    for replica in status["replicas"]:
        for trigger in replica["triggers"]:
            for row in trigger["partitions"]:
                row["reason"] = None
                row["record"] = without_content(row["record"])
    return status


async def _act(source: StatusSource, request: web.Request) -> web.Response:
    # Pages of other sites can't send this type without asking first; when they ask, nothing here says yes.
    if request.content_type != "application/json":
        return _problem(415, "Content-Type has to be application/json")
    topic, partition = request.match_info["topic"], int(request.match_info["partition"])
    action = cast("Action", request.match_info["action"])
    done = await source.act(action, topic, partition)
    if not done:
        return _problem(404, f"{topic}/{partition} is not among the partitions of this function")
    return web.json_response({"done": done})


def _problem(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"problem": text}, status=status, headers=headers)


def page_routes() -> list[web.RouteDef]:
    """Return the routes of the page at `/`: three files, read once, which ask this server alone."""
    return [web.get(path, _answering(name)) for path, name in _PAGE_FILES.items()]


def _answering(name: str) -> Handler:
    text = files("headrace.runtime.admin").joinpath("files", name).read_text("utf-8")
    content_type = _PAGE_TYPES[PurePosixPath(name).suffix]

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type=content_type, charset="utf-8", headers=_PAGE_HEADERS)

    return answer
