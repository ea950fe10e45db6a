"""Spans of a handler's calls, by OpenTelemetry's conventions for messaging and HTTP."""

import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Self

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from headrace.runtime.wire.records import Headers
from headrace.runtime.worker.api.event import StreamEvent
from headrace.runtime.worker.results import status_of

logger = logging.getLogger("headrace.tracing")

HandlerFunction = Callable[[Any, Any], Any]

_CLOSE_SECONDS = 2.0
_SYSTEMS = {"kafka-cluster": "kafka"}
"""Names of messaging systems, where they aren't the trigger's kind."""


class Spans:
    """Makes spans of a worker's calls, and has them exported as the standard variables say."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """`env` has the standard variables, and the function's name."""
        self._env = env
        self._tracer = trace.get_tracer("headrace")  # of whatever provider is set later
        self._provider: TracerProvider | None = None

    def around(self, call: HandlerFunction) -> HandlerFunction:
        """Return a handler's call with a span around each."""

        def traced(of_handler: Any, event_or_batch: Any) -> Any:
            traced_call = self._begin(event_or_batch)
            with _CurrentSpan(traced_call) as current:
                result = call(of_handler, event_or_batch)
                if inspect.iscoroutine(result):
                    current.ends_later = True
                    return _await_traced(traced_call, result)
                traced_call.note(result)
                return result

        return traced

    def headers(self) -> Headers:
        """Return the headers of a message whose origin is the span that is current here."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return tuple((name, value.encode()) for name, value in carrier.items())

    def start(self) -> None:
        """Set up a provider, unless the handler has set one: that is left alone."""
        if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return
        # Not at the exit, where nothing would bound how long it takes: `close` shuts it down.
        self._provider = TracerProvider(resource=self._resource(), shutdown_on_exit=False)
        for name in self._exporters():
            try:
                (found,) = entry_points(group="opentelemetry_traces_exporter", name=name)
                self._provider.add_span_processor(BatchSpanProcessor(found.load()()))
            except Exception as error:  # a package that is missing, or a setting that it doesn't take
                message = "spans don't go to exporter %s (%s: %s); is its package installed, and set up?"
                logger.warning(message, name, type(error).__name__, error)
        trace.set_tracer_provider(self._provider)

    def close(self) -> None:
        """Send what waits, for two seconds at most."""
        if self._provider is not None:  # a collector that is away must not hold up the stop
            closing = threading.Thread(target=self._provider.shutdown, daemon=True)
            closing.start()
            closing.join(_CLOSE_SECONDS)

    def _exporters(self) -> list[str]:
        names = self._env.get("OTEL_TRACES_EXPORTER") or "otlp"
        general = self._env.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
        protocol = self._env.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or general
        otlp = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
        return [otlp if name.strip() == "otlp" else name.strip() for name in names.split(",")]

    def _resource(self) -> Resource:
        """Return the resource of all spans: named as the function is, unless variables name the service."""
        is_named = SERVICE_NAME in self._env.get("OTEL_RESOURCE_ATTRIBUTES", "")
        name = self._env.get("NUCLIO_FUNCTION_NAME")
        if name and not (is_named or self._env.get("OTEL_SERVICE_NAME")):
            return Resource.create({SERVICE_NAME: name})
        return Resource.create()

    def _begin(self, event_or_batch: Any) -> "_TracedCall":
        events = event_or_batch if isinstance(event_or_batch, list) else [event_or_batch]
        first = events[0]
        kind = _text(first.trigger.kind)
        origins = [_origin(event) for event in events]
        if isinstance(first, StreamEvent):
            # Links, and no parent: a record may be handled again, and with others.
            spans = [trace.get_current_span(it).get_span_context() for it in origins]
            links = [Link(it) for it in spans if it.is_valid]
            parent = trace.set_span_in_context(trace.INVALID_SPAN, origins[0])
            name, attributes = f"process {_text(first.topic)}", _of_records(kind, events)
            span = self._tracer.start_span(name, parent, SpanKind.CONSUMER, attributes, links)
        elif kind == "http":
            method = _text(first.method)
            attributes = {"http.request.method": method, "url.path": _text(first.path)}
            span = self._tracer.start_span(method, origins[0], SpanKind.SERVER, attributes)
            parent = origins[0]
        else:
            parent = origins[0]
            span = self._tracer.start_span(_text(first.trigger.name), parent, SpanKind.INTERNAL)
        return _TracedCall(span, trace.set_span_in_context(span, parent), is_http=kind == "http")


@dataclass(frozen=True, slots=True)
class _TracedCall:
    """A call of the handler, and its span."""

    span: Span
    context: Context
    is_http: bool

    def note(self, result: Any) -> None:
        """Note what the handler has returned."""
        status = status_of(result)
        if not isinstance(status, int):
            return
        if self.is_http:
            self.span.set_attribute("http.response.status_code", status)
        if status >= 500:
            self.span.set_attribute("error.type", str(status))
            self.span.set_status(Status(StatusCode.ERROR, f"the handler's response has status {status}"))


class _CurrentSpan:
    """A block in which a span is the current one.

    The span ends with it, unless the rest of the call comes later.
    """

    def __init__(self, call: _TracedCall) -> None:
        self.ends_later = False
        self._call = call
        self._token = context.attach(call.context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        context.detach(self._token)
        span = self._call.span
        if error is not None and kind is not None:
            span.record_exception(error)
            span.set_attribute("error.type", kind.__qualname__)
            span.set_status(Status(StatusCode.ERROR, f"{kind.__name__}: {error}"))
        if not self.ends_later:
            span.end()


async def _await_traced(call: _TracedCall, coroutine: Any) -> Any:
    with _CurrentSpan(call):
        result = await coroutine
        call.note(result)
        return result


def _origin(event: Any) -> Context:
    """Return the trace context that an event's headers carry."""
    pairs = getattr(event, "header_list", None) or ()
    carrier = {name.lower(): _text(value) for name, value in pairs if value is not None}
    return propagate.extract(carrier, Context())


def _of_records(kind: str, events: Sequence[Any]) -> dict[str, str | int]:
    first = events[0]
    attributes: dict[str, str | int] = {
        "messaging.system": _SYSTEMS.get(kind, kind),
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": _text(first.topic),
    }
    if len(events) > 1:
        return attributes | {"messaging.batch.message_count": len(events)}
    place = {
        "messaging.destination.partition.id": str(first.shard_id),
        "messaging.kafka.offset": first.offset,
    }
    return attributes | place | {"headrace.attempt": first.attempt}


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
