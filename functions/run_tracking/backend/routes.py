"""Routing of HTTP requests. Exact paths stand before patterns that would match them."""

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any, NamedTuple, TypeAlias

from headrace.functions.run_tracking.backend import editing, experiments_and_tags, files, runs
from headrace.functions.run_tracking.backend.requests import check_fields
from headrace.functions.run_tracking.backend.responses import HttpResponse, RequestError, json_response
from headrace.functions.run_tracking.backend.state import BackendState
from headrace.web import is_form_type

Handler: TypeAlias = Callable[..., HttpResponse]
"""Function that handles a request: of the state, the event, and the parts of the path in brackets."""
_BASE = "/api/v1/rest"
_RUNS = f"{_BASE}/runs"


def live(state: BackendState, event: Any) -> HttpResponse:
    """Liveness: the worker answers."""
    return json_response({"status": "ok"})


def ready(state: BackendState, event: Any) -> HttpResponse:
    """Readiness: the database answers. Raises SQLAlchemy's errors."""
    state.names.check()
    return json_response({"status": "ok"})


def version(state: BackendState, event: Any) -> HttpResponse:
    """Return headrace's version."""
    try:
        found = version_of("headrace")
    except PackageNotFoundError:  # run from a source folder that isn't installed
        found = "unknown"
    return json_response({"version": found, "component": "backend"})


def project(state: BackendState, event: Any) -> HttpResponse:
    """Describe the only project, which has no name of its own, with counts of what it has."""
    return json_response({"name": "run-tracking", "path": "", "description": "", **state.names.counts()})


class Route(NamedTuple):
    """Handler for one method of one path pattern."""

    method: str
    pattern: re.Pattern[str]
    handler: Handler


def route(method: str, path: str, handler: Handler) -> Route:
    """Make a route. `{}` in `path` stands for one segment; a slash at the end is optional."""
    # `{}` is escaped along with the rest of the path, so its escaped form is what has to be replaced.
    parts = re.escape(path.rstrip("/")).replace(re.escape("{}"), "([^/]+)")
    return Route(method, re.compile(f"{parts}/?"), handler)


_NAMED = tuple(
    one
    for kind in (experiments_and_tags.EXPERIMENT, experiments_and_tags.TAG)
    for one in (
        route("GET", f"{_BASE}/{kind.path}/", kind.list_all),
        route("POST", f"{_BASE}/{kind.path}/", kind.create),
        route("DELETE", f"{_BASE}/{kind.path}/{{}}/", kind.delete),
    )
)


ROUTES: tuple[Route, ...] = (
    *(route("GET", path, files.page) for path in files.FILES),
    route("GET", "/health/live/", live),
    route("GET", "/health/ready/", ready),
    route("GET", f"{_BASE}/version/", version),
    route("GET", f"{_BASE}/projects/", project),
    route("GET", f"{_BASE}/summaries/runs/", runs.of_runs),
    route("GET", f"{_BASE}/summaries/experiments/", runs.of_experiments),
    *_NAMED,
    route("GET", f"{_RUNS}/", runs.list_runs),
    route("POST", f"{_RUNS}/delete-batch/", editing.delete_batch),
    route("POST", f"{_RUNS}/archive-batch/", editing.archive_batch),
    route("GET", f"{_RUNS}/{{}}/info/", runs.info),
    route("POST", f"{_RUNS}/{{}}/metric/get-batch/", runs.metrics),
    route("GET", f"{_RUNS}/{{}}/logs/", runs.logs),
    route("GET", f"{_RUNS}/{{}}/log-records/", runs.log_records),
    route("GET", f"{_RUNS}/{{}}/artifacts/download/", files.artifact),
    route("PUT", f"{_RUNS}/{{}}/", editing.update),
    route("DELETE", f"{_RUNS}/{{}}/", editing.delete),
    route("POST", f"{_RUNS}/{{}}/clear-tombstone/", editing.clear_tombstone),
    route("POST", f"{_RUNS}/{{}}/tags/new/", editing.add_tag),
    route("DELETE", f"{_RUNS}/{{}}/tags/{{}}/", editing.remove_tag),
)


def answer(state: BackendState, event: Any) -> HttpResponse:
    """Call the handler of the first route that matches. Raises RequestError, and SQLAlchemy's errors.

    HEAD is handled as GET; the server leaves the body out.
    """
    method = "GET" if event.method == "HEAD" else event.method  # the server leaves the body out
    allowed: list[str] = []
    for one in ROUTES:
        if not (found := one.pattern.fullmatch(event.path)):
            continue
        if one.method == method:
            # A page of another site can send forms without asking first; JSON it can't.
            if method != "GET" and is_form_type(event.content_type):
                raise RequestError(415, "Content-Type has to be application/json")
            check_fields(event.fields)
            return one.handler(state, event, *found.groups())
        allowed.append(one.method)
    # The path exists, with other methods.
    if allowed:
        allow = ", ".join(dict.fromkeys(allowed))
        raise RequestError(405, f"here it is {allow}", {"Allow": allow})
    raise RequestError(404, "nothing is here")
