"""Which request goes to which function. Exact paths stand before those with an id in them."""

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


Handler: TypeAlias = Callable[..., HttpResponse]


"""Takes the site, the event, and the parts of the path that its pattern has in brackets."""


class Route(NamedTuple):
    """One method of one kind of path."""

    method: str
    pattern: re.Pattern[str]
    handler: Handler


def route(method: str, path: str, handler: Handler) -> Route:
    """`{}` in `path` is one part of it. A slash in the end may be there, or not."""
    parts = re.escape(path.rstrip("/")).replace(re.escape("{}"), "([^/]+)")
    return Route(method, re.compile(f"{parts}/?"), handler)


_BASE = "/api/v1/rest"


_RUNS = f"{_BASE}/runs"


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
    route("GET", f"{_RUNS}/", runs.listed),
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


def answer(site: BackendState, event: Any) -> HttpResponse:
    """By the first that fits. Raises RequestError, and SQLAlchemy's errors."""
    method = "GET" if event.method == "HEAD" else event.method  # the body is left out on its way
    allowed: list[str] = []
    for one in ROUTES:
        if not (found := one.pattern.fullmatch(event.path)):
            continue
        if one.method == method:
            if method != "GET" and is_form_type(event.content_type):
                raise RequestError(415, "Content-Type has to be application/json")
            check_fields(event.fields)
            return one.handler(site, event, *found.groups())
        allowed.append(one.method)
    if allowed:
        allow = ", ".join(dict.fromkeys(allowed))
        raise RequestError(405, f"here it is {allow}", {"Allow": allow})
    raise RequestError(404, "nothing is here")
