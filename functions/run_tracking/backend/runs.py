"""Handlers of requests that read runs: lists, metrics, logs and summaries."""

from pathlib import Path
from typing import Any

from headrace.functions.run_tracking.backend.requests import (
    boolean,
    step_range,
    storable,
    traces,
    whole_number,
)
from headrace.functions.run_tracking.backend.responses import (
    HttpResponse,
    RequestError,
    check_run_id,
    json_list_response,
    json_response,
)
from headrace.functions.run_tracking.backend.state import BackendState
from headrace.functions.run_tracking.store.readers import RunFilter

_DEFAULT_RUNS, _MOST_RUNS = 100, 500
_DEFAULT_LINES, _MOST_LINES = 1_000, 10_000
_DEFAULT_ROWS, _MOST_ROWS = 1_000, 10_000


def list_runs(state: BackendState, event: Any) -> HttpResponse:
    """List runs, the newest first; query: `limit`, `experiment` (a name), `archived`, `active`."""
    fields = event.fields
    experiment = storable(fields.get("experiment", ""), "experiment") or None
    wanted = RunFilter(experiment, boolean(fields, "archived"), boolean(fields, "active"))
    return json_response(
        state.reader.runs(wanted, whole_number(fields, "limit", _DEFAULT_RUNS, 1, _MOST_RUNS))
    )


def info(state: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Return hyperparameters, metrics, properties and artifacts of a run."""
    found = state.reader.info(check_run_id(run_id))
    if found is None:
        raise run_not_found(run_id)
    return json_response(found)


def metrics(state: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Return the curves that the body lists; query: `record_density` (most points), `record_range`."""
    wanted_traces = traces(event)
    # 404 for a run that isn't there: its curves would be empty lists otherwise.
    check_run_exists(state, run_id)
    # The curves come from a generator: of each one only its JSON stays in memory.
    return json_list_response(state.curves.read(run_id, wanted_traces, step_range(event.fields)))


def logs(state: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Return the last `limit` lines of the terminal as JSON. Matyan's own binary stream isn't built."""
    check_run_exists(state, run_id)
    limit = whole_number(event.fields, "limit", _DEFAULT_LINES, 1, _MOST_LINES)
    return json_response(state.reader.last_lines(run_id, limit))


def log_records(state: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Return the last `limit` records of the log as JSON. Matyan's own binary stream isn't built."""
    check_run_exists(state, run_id)
    limit = whole_number(event.fields, "limit", _DEFAULT_LINES, 1, _MOST_LINES)
    return json_response(state.reader.last_records(run_id, limit))


def check_run_exists(state: BackendState, run_id: str) -> None:
    """Raise RequestError if the run doesn't exist."""
    if not state.reader.existing([check_run_id(run_id)]):
        raise run_not_found(run_id)


def run_not_found(run_id: str) -> RequestError:
    """Return the error for a run that doesn't exist."""
    return RequestError(404, f"there is no run {run_id}")


def of_runs(state: BackendState, event: Any) -> HttpResponse:
    """Return a row for each metric of each run; query: `run`, `experiment`, `limit`."""
    return _rows(state.summaries / "runs", event, ("run", "experiment"))


def of_experiments(state: BackendState, event: Any) -> HttpResponse:
    """Return a row for each metric of each experiment; query: `experiment`, `limit`."""
    return _rows(state.summaries / "experiments", event, ("experiment",))


def _rows(folder: Path, event: Any, filters: tuple[str, ...]) -> HttpResponse:
    """Return rows of a Parquet folder of summaries; an empty list before the first refresh."""
    # Imported here: all other requests read the database only.
    import pyarrow as pa
    from pyarrow import dataset

    wanted = None
    for name in filters:
        if name in event.fields:
            is_it = dataset.field(name) == pa.scalar(storable(event.fields[name], name), pa.string())
            wanted = is_it if wanted is None else wanted & is_it
    limit = whole_number(event.fields, "limit", _DEFAULT_ROWS, 1, _MOST_ROWS)
    try:
        # The folder behind the links: a refresh in between moves the links but leaves its files.
        found = dataset.dataset(folder.resolve(), format="parquet").head(limit, filter=wanted)
    except FileNotFoundError:
        return json_response([])
    return json_response(found.to_pylist())
