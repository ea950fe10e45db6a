"""The frontier: an HTTP server in each worker, at one port, beside the trigger's own.

The trigger's port answers health and metrics too, so that monitoring can leave the clients' port alone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from headrace.functions.run_tracking.blobs.open import open_store
from headrace.functions.run_tracking.frontier.artifacts import routes
from headrace.functions.run_tracking.frontier.publishing import ItemPublisher
from headrace.functions.run_tracking.frontier.sockets import Sockets
from headrace.functions.run_tracking.frontier.status import FrontierMetrics, Health
from headrace.functions.run_tracking.settings import Settings, SettingsError
from headrace.web import Limits, ListenError, Server, refuse_foreign_pages

_REQUEST_ID = "X-Request-ID"
_OUTPUT = "kafka"
"""Name of the output in function.yaml."""


def prepare(context: Any, settings: Settings) -> None:
    """Start the server; return once it listens. Raises SettingsError if the port is taken."""
    # The handler is async, so the worker has an event loop, on which the server goes on between events.
    asyncio.get_event_loop().run_until_complete(listen(context, settings))
    context.logger.info_with("the frontier listens", url=settings.frontier_url)


async def handle(context: Any, event: Any) -> Any:
    """Answer a request to the trigger's port."""
    response = await context.user_data.health.answer(event.path)
    return context.Response(
        body=response.body, content_type=response.content_type, status_code=response.status
    )


async def listen(context: Any, settings: Settings) -> None:
    """Start the server on the running event loop. Raises SettingsError if the port is taken."""
    publisher = ItemPublisher(
        context.produce, settings.data_ingestion_topic, _OUTPUT, settings.publish_timeout_seconds
    )
    counts = FrontierMetrics()
    sockets = Sockets(publisher, counts, settings.run_bounds)
    health = Health(publisher, counts, settings.brokers)
    app = application(settings, sockets, health)
    context.user_data.health = health
    context.platform.set_termination_callback(sockets.close)
    # All workers and replicas listen at the one port, and the kernel chooses.
    try:
        await Server(app, Limits()).listen(
            settings.frontier_host,
            settings.frontier_port,
            who="the frontier",
            instead="FRONTIER_PORT names another one",
            is_shared=True,
        )
    except ListenError as error:
        raise SettingsError(str(error)) from None


def application(settings: Settings, sockets: Sockets, health: Health) -> web.Application:
    """Return the application with all routes. Requests from pages of other sites are refused."""
    guard = refuse_foreign_pages(settings.frontier_host, settings.allowed_hosts)
    # The first is the outermost: what the guard refuses has the request's id, too.
    app = web.Application(middlewares=[_with_request_id, guard])
    app.add_routes([web.get("/api/v1/ws/runs/{run_id}", sockets.serve)])
    app.add_routes(routes(open_store(settings)))
    # Last, as it takes every path that no other route has, and answers 404 itself.
    app.add_routes([web.get("/{path:.*}", _asking(health))])
    return app


def _asking(health: Health) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = await health.answer(request.path)
        return web.Response(
            status=response.status, body=response.body, headers={"Content-Type": response.content_type}
        )

    return answer


@web.middleware
async def _with_request_id(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Return the client's X-Request-ID with the response."""
    response = await handler(request)
    # A WebSocket has sent its headers long before it returns.
    if (request_id := request.headers.get(_REQUEST_ID)) and not response.prepared:
        response.headers[_REQUEST_ID] = request_id
    return response
