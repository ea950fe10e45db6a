"""Experiments and tags: both have a name, and an id that is made of it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from headrace.functions.run_tracking.backend.requests import members, named, number
from headrace.functions.run_tracking.backend.responses import HttpResponse, RequestError, json_response
from headrace.functions.run_tracking.backend.state import BackendState
from headrace.functions.run_tracking.store.tables import EXPERIMENTS, TAGS

_MOST = 10_000
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Kind:
    """Of what has a name. `publish` and `remove` say, and write, that one is gone."""

    path: str
    table: sa.Table
    find: Callable[[BackendState, int], Sequence[Mapping[str, Any]]]
    publish: Callable[[BackendState, str], None]
    remove: Callable[[BackendState, str], None]

    def list_all(self, site: BackendState, event: Any) -> HttpResponse:
        """By name; `limit`."""
        return json_response(self.find(site, number(event.fields, "limit", _MOST, 1, _MOST)))

    def create(self, site: BackendState, event: Any) -> HttpResponse:
        """`name`. One that is there already is the same one."""
        key = site.changes.create(self.table, named(members(event), "name"))
        return json_response({"id": key, "status": "OK"})

    def delete(self, site: BackendState, event: Any, key: str) -> HttpResponse:
        """What has had it stays."""
        if not _ID.fullmatch(key) or not site.names.is_there(self.table, key):
            raise RequestError(404, f"nothing of that id is among the {self.path}")
        self.publish(site, key)
        self.remove(site, key)
        return json_response({"id": key, "status": "OK"})


EXPERIMENT = Kind(
    "experiments",
    EXPERIMENTS,
    find=lambda site, limit: site.names.experiments(limit),
    publish=lambda site, key: site.publisher.delete_experiment(key),
    remove=lambda site, key: site.changes.delete_experiment(key),
)
TAG = Kind(
    "tags",
    TAGS,
    find=lambda site, limit: site.names.tags(limit),
    publish=lambda site, key: site.publisher.delete_tag(key),
    remove=lambda site, key: site.changes.delete_tag(key),
)
