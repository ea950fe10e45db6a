"""Which request goes to which function. Exact paths stand before those with an id in them."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from headrace.functions.run_tracking.backend import (
    downloads,
    editing,
    experiments_and_tags,
    health,
    pages,
    runs,
    summaries,
)
from headrace.functions.run_tracking.backend.requests import check_fields
from headrace.functions.run_tracking.backend.responses import HttpResponse, RequestError
from headrace.functions.run_tracking.backend.state import BackendState
from headrace.web import is_form_type

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
    *(route("GET", path, pages.page) for path in pages.FILES),
    route("GET", "/health/live/", health.live),
    route("GET", "/health/ready/", health.ready),
    route("GET", f"{_BASE}/version/", health.version),
    route("GET", f"{_BASE}/projects/", health.project),
    route("GET", f"{_BASE}/summaries/runs/", summaries.of_runs),
    route("GET", f"{_BASE}/summaries/experiments/", summaries.of_experiments),
    *_NAMED,
    route("GET", f"{_RUNS}/", runs.listed),
    route("POST", f"{_RUNS}/delete-batch/", editing.delete_batch),
    route("POST", f"{_RUNS}/archive-batch/", editing.archive_batch),
    route("GET", f"{_RUNS}/{{}}/info/", runs.info),
    route("POST", f"{_RUNS}/{{}}/metric/get-batch/", runs.metrics),
    route("GET", f"{_RUNS}/{{}}/logs/", runs.logs),
    route("GET", f"{_RUNS}/{{}}/log-records/", runs.log_records),
    route("GET", f"{_RUNS}/{{}}/artifacts/download/", downloads.artifact),
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
