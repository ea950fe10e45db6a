"""Whether it is there, what it is, and how much it has."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any

from headrace.functions.run_tracking.backend.responses import Answer, as_json
from headrace.functions.run_tracking.backend.state import Site


def live(site: Site, event: Any) -> Answer:
    """The worker answers."""
    return as_json({"status": "ok"})


def ready(site: Site, event: Any) -> Answer:
    """The database, too. Raises SQLAlchemy's errors."""
    site.names.check()
    return as_json({"status": "ok"})


def version(site: Site, event: Any) -> Answer:
    """Of headrace."""
    try:
        found = version_of("headrace")
    except PackageNotFoundError:  # it runs from a folder that was never installed
        found = "unknown"
    return as_json({"version": found, "component": "backend"})


def project(site: Site, event: Any) -> Answer:
    """There is one, of no name of its own."""
    return as_json({"name": "run-tracking", "path": "", "description": "", **site.names.counts()})
