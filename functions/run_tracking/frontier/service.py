"""The server that clients talk to, in a worker process, beside the trigger that holds it.

The trigger's requests are answered as the server's own are: whoever watches the function can leave the port
of its clients alone.
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
"""In function.yaml."""


def prepare(context: Any, settings: Settings) -> None:
    """Returns once it listens. Raises SettingsError for a port that is taken."""
    asyncio.get_event_loop().run_until_complete(listen(context, settings))
    context.logger.info_with("the frontier listens", url=settings.frontier_url)


async def handle(context: Any, event: Any) -> Any:
    """A request to the trigger."""
    said = await context.user_data.health.answer(event.path)
    return context.Response(body=said.body, content_type=said.content_type, status_code=said.status)


async def listen(context: Any, settings: Settings) -> None:
    """As `prepare` says, on the loop that this is called on."""
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
    """All of its routes, of which a page of another site reaches none."""
    guard = refuse_foreign_pages(settings.frontier_host, settings.allowed_hosts)
    app = web.Application(middlewares=[_with_request_id, guard])
    app.add_routes([web.get("/api/v1/ws/runs/{run_id}", sockets.serve)])
    app.add_routes(routes(open_store(settings)))
    app.add_routes([web.get("/{path:.*}", _asking(health))])
    return app


def _asking(health: Health) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        said = await health.answer(request.path)
        return web.Response(status=said.status, body=said.body, headers={"Content-Type": said.content_type})

    return answer


@web.middleware
async def _with_request_id(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """What the client calls its request stands in the answer."""
    response = await handler(request)
    if (said := request.headers.get(_REQUEST_ID)) and not response.prepared:
        response.headers[_REQUEST_ID] = said
    return response
