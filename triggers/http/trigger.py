"""The http trigger: requests become events, and what handlers return becomes answers."""

import asyncio
import logging
from dataclasses import replace

from aiohttp import web

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy, FailurePolicy
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.errors import printable
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.web.limits import Limits
from headrace.runtime.web.payloads import is_waiting, whole_body
from headrace.runtime.web.server import Server
from headrace.triggers.base import Dispatch, EmbeddedNeeds, Trigger, TriggerStatus
from headrace.triggers.http.cross_origin import PREFLIGHT_VARY, Cors, RequestGuard
from headrace.triggers.http.event import head_of
from headrace.triggers.http.requests import STOPPING, Requests
from headrace.triggers.http.responses import headers_of, send_parts, text_answer
from headrace.triggers.http.settings import HttpSettings
from headrace.triggers.http.target import Ingresses, path_of

logger = logging.getLogger(__name__)

HEALTH_PATH = "/__internal/health"
IDLE_SECONDS = 75.0
"""How long a connection may be silent, or a head may take: longer than most clients keep a connection."""
_EVENT = "headrace.triggers.http.event:HttpEvent"
_ONCE = FailurePolicy(max_attempts=1, then="report")  # whoever asked decides whether to ask again


class HttpTrigger(Trigger):
    """A server on a port.

    Requests get workers in the order in which they come; a worker answers `maxConcurrency` at a time.
    """

    @staticmethod
    def delivery(settings: HttpSettings, fields: TriggerFields) -> DeliveryPolicy:
        """Return the policy by which workers send replies, and nothing is tried again."""
        return replace(
            fields.delivery,
            ack_mode=AckMode.DISABLE,
            failure=_ONCE,
            event=_EVENT,
            wants_replies=True,
            max_concurrency=settings.max_concurrency,
        )

    @staticmethod
    def embedded(settings: HttpSettings) -> EmbeddedNeeds:  # noqa: ARG004  # as all kinds'
        """Return the need for no service."""
        return EmbeddedNeeds()

    def __init__(
        self, spec: TriggerSpec, dispatch: Dispatch, metrics: TriggerMetrics, client_id: str
    ) -> None:
        self._spec = spec
        settings: HttpSettings = spec.settings
        wait_seconds = spec.fields.worker_availability_timeout_milliseconds / 1000
        self._requests = Requests(spec.name, dispatch, metrics, wait_seconds)
        self._ingresses = Ingresses(settings.paths, *metrics.named)
        self._guard = RequestGuard(settings)
        self._cors = Cors(settings.cors)
        self._most_body_bytes = settings.max_request_body_size
        limits = Limits(
            idle_seconds=IDLE_SECONDS,
            most_head_bytes=settings.read_buffer_size,
            most_body_bytes=settings.max_request_body_size,
        )
        self._server = Server(self._answer, limits, cancels=True)
        self._is_stopping = asyncio.Event()

    async def run(self) -> None:
        """Listen until `stop`. Raises UsageError where it can't."""
        if not self._is_stopping.is_set():
            await self._listen()
            logger.info("%s: listens at %s", self._spec.name, self._server.url)
        await self._is_stopping.wait()

    async def stop(self, wait_seconds: float) -> None:
        """Finish requests that a worker has begun with, refuse the rest."""
        # New connections are refused first; requests of those that are open get an answer until the end.
        self._is_stopping.set()
        self._server.refuse_connections()
        await self._requests.stop(wait_seconds)
        await self._server.stop(1.0)

    def problems(self) -> list[str]:
        """Return that it doesn't listen yet; nothing once it does."""
        return [] if self._server.url else ["not listening yet"]

    def status(self) -> TriggerStatus:
        """Return the URL that it listens at, and how many requests are open."""
        return TriggerStatus({"url": self._server.url or None, "openRequests": self._requests.open_count})

    async def _listen(self) -> None:
        name, settings = self._spec.name, self._spec.settings
        await self._server.listen(
            settings.host,
            settings.port,
            who=f"trigger {name}",
            instead=f"choose another port with --set triggers.{name}.attributes.port=..., 0 for a free one",
            is_shared=self._spec.replica_index is not None,
        )

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request: with what is wrong with it, else by the handler."""
        if (answer := self._answer_without_handler(request)) is not None:
            # A client that waits for 100 Continue may send its body next, or its next request: the
            # connection can't go on.
            if is_waiting(request):
                answer.force_close()
            return answer
        body = await whole_body(request, self._most_body_bytes) if request.can_read_body else b""
        return await self._answer_by_handler(request, body)

    def _answer_without_handler(self, request: web.BaseRequest) -> web.Response | None:
        """Return the answer to a request that no handler sees; None for others."""
        if refusal := self._guard.refusal(request.method, request.headers):
            return text_answer(403, refusal)
        # Before CORS and ingresses: the path is the same for every function, whatever its settings.
        if request.raw_path == HEALTH_PATH:
            return text_answer(200, "ok")
        if self._cors.is_enabled and (answer := self._answer_by_cors(request)) is not None:
            return answer
        if not self._ingresses.cover(request.raw_path):
            return text_answer(
                404, f"no ingress of this function covers {printable(path_of(request.raw_path))}"
            )
        return None

    def _answer_by_cors(self, request: web.BaseRequest) -> web.Response | None:
        headers = request.headers
        if self._cors.is_preflight(request.method, headers):
            cors_headers = self._cors.preflight(headers)
            if cors_headers is None:
                return text_answer(400, "not allowed", {"Vary": PREFLIGHT_VARY})
            return text_answer(200, "", cors_headers)
        if self._cors.is_refused(headers):
            return text_answer(403, "not allowed from that origin", {"Vary": "Origin"})
        return None

    async def _answer_by_handler(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        head = head_of(request.method, request.raw_path, request.raw_headers)
        reply, rest = await self._requests.ask(head, body)
        cors_headers = self._cors.response_headers(request.headers) if self._cors.is_enabled else {}
        try:
            headers = headers_of(reply, cors_headers)
        except ValueError as error:
            message = "%s %s: the handler's answer can't be sent: %s"
            logger.error(message, request.method, request.raw_path, error)  # noqa: TRY400  # not a fault here
            if rest is not None:
                rest.abandon()
            return text_answer(500, "the handler's answer can't be sent", cors_headers)
        if rest is not None:
            return await send_parts(request, web.StreamResponse(status=reply.status, headers=headers), rest)
        content = b"" if reply.status == 205 else reply.body  # aiohttp knows the others without one
        response = web.Response(status=reply.status, body=content, headers=headers)
        if reply is STOPPING:
            response.force_close()  # the connection's next request would be refused as well
        return response
