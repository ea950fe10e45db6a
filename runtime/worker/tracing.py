"""Spans of handler calls, where OpenTelemetry's standard variables ask for them; else nothing is imported."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headrace.runtime.wire.records import Headers

logger = logging.getLogger("headrace.tracing")

HandlerFunction = Callable[[Any, Any], Any]


class Traces(Protocol):
    """Makes spans of a worker's calls: NoTraces makes none, spans.Spans is OpenTelemetry's."""

    def around(self, call: HandlerFunction) -> HandlerFunction:
        """Return a handler's call with a span around each."""

    def headers(self) -> Headers:
        """Return the headers of a message whose origin is the span that is current here."""

    def start(self) -> None:
        """Begin: the handler is loaded, and may have set up a provider of its own."""

    def close(self) -> None:
        """Send what waits, for a moment at most."""


class NoTraces:
    """Makes no spans: no variable asks for any."""

    def around(self, call: HandlerFunction) -> HandlerFunction:
        """Return the call as it is."""
        return call

    def headers(self) -> Headers:
        """Return no headers: there is no span."""
        return ()

    def start(self) -> None:
        """Do nothing: there is no provider to set up."""

    def close(self) -> None:
        """Do nothing: nothing waits to be sent."""


def traces_of(env: Mapping[str, str]) -> Traces:
    """Return the traces that the worker's environment asks for.

    A package that is missing is a line of the log, and no reason to end.
    """
    if not _are_wanted(env):
        return NoTraces()
    try:
        from headrace.runtime.worker.spans import Spans
    except ImportError as error:
        message = "no traces, though OTEL_ variables ask for them: %s; pip install opentelemetry-sdk %s"
        logger.warning(message, error, "opentelemetry-exporter-otlp-proto-http")
        return NoTraces()
    return Spans(env)


def _are_wanted(env: Mapping[str, str]) -> bool:
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if exporters := env.get("OTEL_TRACES_EXPORTER"):
        return exporters != "none"
    return any(env.get(f"OTEL_EXPORTER_OTLP_{which}") for which in ("ENDPOINT", "TRACES_ENDPOINT"))
