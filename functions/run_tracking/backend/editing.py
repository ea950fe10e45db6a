"""Handlers of requests that edit runs. Edits that other services need are published first, then written."""

from typing import Any

from headrace.functions.run_tracking.backend.requests import (
    boolean,
    changes_of,
    json_object,
    name_in,
    run_ids,
)
from headrace.functions.run_tracking.backend.responses import (
    HttpResponse,
    RequestError,
    check_run_id,
    json_response,
    no_content,
)
from headrace.functions.run_tracking.backend.runs import check_run_exists, run_not_found
from headrace.functions.run_tracking.backend.state import BackendState


def update(state: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Set `name`, `description`, `archived` or `experiment` (a name, or empty for none) of a run."""
    changes = changes_of(json_object(event))
    check_run_exists(state, run_id)
    # Of these only archiving has a control event.
    if "archived" in changes:
        state.publisher.archive_runs([run_id], archived=changes["archived"])
    state.changes.update_run(run_id, changes)
    return _done(run_id)


def delete(state: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Delete a run now, and once more when ingestion comes to the message, after which `control` is told."""
    check_run_exists(state, run_id)
    # Published first: if this worker dies in between, ingestion still deletes the run.
    state.publisher.delete_runs([run_id])
    state.changes.delete_runs([run_id])
    return _done(run_id)


def delete_batch(state: BackendState, event: Any) -> HttpResponse:
    """Delete those of the runs that exist; `deleted` lists them."""
    existing = state.reader.existing(run_ids(event))
    state.publisher.delete_runs(existing)
    state.changes.delete_runs(existing)
    return json_response({"status": "OK", "deleted": existing})


def archive_batch(state: BackendState, event: Any) -> HttpResponse:
    """Archive those of the runs that exist, or with `archive=false` take them back."""
    archived = boolean(event.fields, "archive") is not False
    existing = state.reader.existing(run_ids(event))
    state.publisher.archive_runs(existing, archived=archived)
    state.changes.archive_runs(existing, archived=archived)
    return json_response({"status": "OK", "archived" if archived else "unarchived": existing})


def clear_tombstone(state: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Forget that a run was deleted, so that its id may be used again."""
    state.changes.clear_tombstone(check_run_id(run_id))
    return no_content()


def add_tag(state: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Add the tag `tag_name`, which is created if it is new."""
    name = name_in(json_object(event), "tag_name")
    # add_tag asks whether the run exists, with its row locked: asked here, it could be deleted in between.
    tag_id = state.changes.add_tag(check_run_id(run_id), name)
    if tag_id is None:
        raise run_not_found(run_id)
    return json_response({"id": run_id, "tag_id": tag_id, "status": "OK"})


def remove_tag(state: BackendState, event: Any, run_id: str, tag_id: str) -> HttpResponse:
    """Remove a tag from a run. The tag itself stays."""
    check_run_exists(state, run_id)
    if not state.changes.remove_tag(run_id, tag_id):
        raise RequestError(404, "the run has no such tag")
    return json_response({"id": run_id, "removed": True, "status": "OK"})


def _done(run_id: str) -> HttpResponse:
    return json_response({"id": run_id, "status": "OK"})
