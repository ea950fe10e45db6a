"""Whether it is there, what it is, and how much it has."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any

from headrace.functions.run_tracking.backend.responses import HttpResponse, json_response
from headrace.functions.run_tracking.backend.state import BackendState


def live(site: BackendState, event: Any) -> HttpResponse:
    """The worker answers."""
    return json_response({"status": "ok"})


def ready(site: BackendState, event: Any) -> HttpResponse:
    """The database, too. Raises SQLAlchemy's errors."""
    site.names.check()
    return json_response({"status": "ok"})


def version(site: BackendState, event: Any) -> HttpResponse:
    """Of headrace."""
    try:
        found = version_of("headrace")
    except PackageNotFoundError:  # it runs from a folder that was never installed
        found = "unknown"
    return json_response({"version": found, "component": "backend"})


def project(site: BackendState, event: Any) -> HttpResponse:
    """There is one, of no name of its own."""
    return json_response({"name": "run-tracking", "path": "", "description": "", **site.names.counts()})
