"""Handlers of requests about experiments and tags. Both have a name, and an id that is a hash of it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from headrace.functions.run_tracking.backend.requests import json_object, name_in, whole_number
from headrace.functions.run_tracking.backend.responses import HttpResponse, RequestError, json_response
from headrace.functions.run_tracking.backend.state import BackendState
from headrace.functions.run_tracking.store.tables import EXPERIMENTS, TAGS

# Nothing bounds how many there are, so the list of them is bounded.
_MOST = 10_000
# What id_of_name returns; nothing else can be in the table.
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class NamedKind:
    """Experiments, or tags: their path and table, and how one is published as deleted and deleted."""

    path: str
    table: sa.Table
    find: Callable[[BackendState, int], Sequence[Mapping[str, Any]]]
    publish: Callable[[BackendState, str], None]
    remove: Callable[[BackendState, str], None]

    def list_all(self, state: BackendState, event: Any) -> HttpResponse:
        """List by name, at most `limit`."""
        return json_response(self.find(state, whole_number(event.fields, "limit", _MOST, 1, _MOST)))

    def create(self, state: BackendState, event: Any) -> HttpResponse:
        """Create one with `name`; an existing name returns the existing id."""
        key = state.changes.create(self.table, name_in(json_object(event), "name"))
        return json_response({"id": key, "status": "OK"})

    def delete(self, state: BackendState, event: Any, key: str) -> HttpResponse:
        """Delete one. Runs that have it stay."""
        if not _ID.fullmatch(key) or not state.names.exists(self.table, key):
            raise RequestError(404, f"nothing of that id is among the {self.path}")
        # Published first: after a crash in between a second request publishes again. The other way round it
        # would find nothing to delete, and the event would never be sent.
        self.publish(state, key)
        self.remove(state, key)
        return json_response({"id": key, "status": "OK"})


# Lambdas, since each worker makes its readers and writers later, in `prepare`.
EXPERIMENT = NamedKind(
    "experiments",
    EXPERIMENTS,
    find=lambda state, limit: state.names.experiments(limit),
    publish=lambda state, key: state.publisher.delete_experiment(key),
    remove=lambda state, key: state.changes.delete_experiment(key),
)
TAG = NamedKind(
    "tags",
    TAGS,
    find=lambda state, limit: state.names.tags(limit),
    publish=lambda state, key: state.publisher.delete_tag(key),
    remove=lambda state, key: state.changes.delete_tag(key),
)
