"""What people change of runs. What others have to learn of is published first, then written."""

from typing import Any

from headrace.functions.run_tracking.backend.requests import changes_of, members, named, run_ids, truth
from headrace.functions.run_tracking.backend.responses import (
    HttpResponse,
    RequestError,
    check_run_id,
    json_response,
    no_content,
)
from headrace.functions.run_tracking.backend.runs import check_there, no_run
from headrace.functions.run_tracking.backend.state import BackendState


def update(site: BackendState, event: Any, run_id: str) -> HttpResponse:
    """`name`, `description`, `experiment` (a name, or empty for none), `archived`."""
    changes = changes_of(members(event))
    check_there(site, run_id)
    if "archived" in changes:
        site.publisher.archive_runs([run_id], archived=changes["archived"])
    site.changes.update_run(run_id, changes)
    return _done(run_id)


def delete(site: BackendState, event: Any, run_id: str) -> HttpResponse:
    """At once, and again once the message has come to whoever ingests, who then tells `control`."""
    check_there(site, run_id)
    site.publisher.delete_runs([run_id])
    site.changes.delete_runs([run_id])
    return _done(run_id)


def delete_batch(site: BackendState, event: Any) -> HttpResponse:
    """Those that are there; `deleted` says which."""
    there = site.reader.existing(run_ids(event))
    site.publisher.delete_runs(there)
    site.changes.delete_runs(there)
    return json_response({"status": "OK", "deleted": there})


def archive_batch(site: BackendState, event: Any) -> HttpResponse:
    """Those that are there, unless `archive` is false: then they are taken back."""
    archived = truth(event.fields, "archive") is not False
    there = site.reader.existing(run_ids(event))
    site.publisher.archive_runs(there, archived=archived)
    site.changes.archive_runs(there, archived=archived)
    return json_response({"status": "OK", "archived" if archived else "unarchived": there})


def clear_tombstone(site: BackendState, event: Any, run_id: str) -> HttpResponse:
    """So that the run may come again."""
    site.changes.clear_tombstone(check_run_id(run_id))
    return no_content()


def add_tag(site: BackendState, event: Any, run_id: str) -> HttpResponse:
    """`tag_name`, which is made where it isn't there."""
    name = named(members(event), "tag_name")
    tag_id = site.changes.add_tag(check_run_id(run_id), name)
    if tag_id is None:
        raise no_run(run_id)
    return json_response({"id": run_id, "tag_id": tag_id, "status": "OK"})


def remove_tag(site: BackendState, event: Any, run_id: str, tag_id: str) -> HttpResponse:
    """The tag itself stays."""
    check_there(site, run_id)
    if not site.changes.remove_tag(run_id, tag_id):
        raise RequestError(404, "the run has no such tag")
    return json_response({"id": run_id, "removed": True, "status": "OK"})


def _done(run_id: str) -> HttpResponse:
    return json_response({"id": run_id, "status": "OK"})
