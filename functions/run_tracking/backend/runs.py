"""What there is of runs."""

from pathlib import Path
from typing import Any

from headrace.functions.run_tracking.backend.requests import number, steps, storable, traces, truth
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


def listed(site: BackendState, event: Any) -> HttpResponse:
    """The newest first; `limit`, `experiment` (a name), `archived`, `active`."""
    fields = event.fields
    experiment = storable(fields.get("experiment", ""), "experiment") or None
    wanted = RunFilter(experiment, truth(fields, "archived"), truth(fields, "active"))
    return json_response(site.reader.runs(wanted, number(fields, "limit", _DEFAULT_RUNS, 1, _MOST_RUNS)))


def info(site: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Hyperparameters, metrics, properties and artifacts."""
    found = site.reader.info(check_run_id(run_id))
    if found is None:
        raise no_run(run_id)
    return json_response(found)


def metrics(site: BackendState, event: Any, run_id: str) -> HttpResponse:
    """The curve of each trace in the body; `record_density` points at most, of `record_range`."""
    asked = traces(event)
    check_there(site, run_id)
    return json_list_response(site.curves.read(run_id, asked, steps(event.fields)))


def logs(site: BackendState, event: Any, run_id: str) -> HttpResponse:
    """The last `limit` lines of the terminal. Upstream streams a binary format here, which isn't built."""
    check_there(site, run_id)
    limit = number(event.fields, "limit", _DEFAULT_LINES, 1, _MOST_LINES)
    return json_response(site.reader.last_lines(run_id, limit))


def log_records(site: BackendState, event: Any, run_id: str) -> HttpResponse:
    """The last `limit` records of the log. Upstream streams a binary format here, which isn't built."""
    check_there(site, run_id)
    limit = number(event.fields, "limit", _DEFAULT_LINES, 1, _MOST_LINES)
    return json_response(site.reader.last_records(run_id, limit))


def check_there(site: BackendState, run_id: str) -> None:
    """Raises RequestError where no run is."""
    if not site.reader.existing([check_run_id(run_id)]):
        raise no_run(run_id)


def no_run(run_id: str) -> RequestError:
    """To be raised."""
    return RequestError(404, f"there is no run {run_id}")


_DEFAULT_ROWS, _MOST_ROWS = 1_000, 10_000


def of_runs(site: BackendState, event: Any) -> HttpResponse:
    """A row for each metric of each run; `run`, `experiment`, `limit`."""
    return _rows(site.summaries / "runs", event, ("run", "experiment"))


def of_experiments(site: BackendState, event: Any) -> HttpResponse:
    """A row for each metric of each experiment; `experiment`, `limit`."""
    return _rows(site.summaries / "experiments", event, ("experiment",))


def _rows(folder: Path, event: Any, filters: tuple[str, ...]) -> HttpResponse:
    """None where nothing has been summed up."""
    import pyarrow as pa
    from pyarrow import dataset

    wanted = None
    for name in filters:
        if name in event.fields:
            is_it = dataset.field(name) == pa.scalar(storable(event.fields[name], name), pa.string())
            wanted = is_it if wanted is None else wanted & is_it
    limit = number(event.fields, "limit", _DEFAULT_ROWS, 1, _MOST_ROWS)
    try:
        # The place itself, not the links to it: a refresh meanwhile leaves these files where they are.
        found = dataset.dataset(folder.resolve(), format="parquet").head(limit, filter=wanted)
    except FileNotFoundError:
        return json_response([])
    return json_response(found.to_pylist())
