"""What Spark has summed up, from its Parquet folders: as new as its last firing."""

from pathlib import Path
from typing import Any

from headrace.functions.run_tracking.backend.requests import number, storable
from headrace.functions.run_tracking.backend.responses import HttpResponse, json_response
from headrace.functions.run_tracking.backend.state import BackendState

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
