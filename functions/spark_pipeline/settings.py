"""Settings of a pipeline, from `spec.env`: names, defaults, and all mistakes in one error."""

import difflib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PREFIX = "PIPELINE_"
_ALL_ROWS = "SELECT topic, partition, offset, timestamp, record.*, bad_record FROM records"


class PipelineError(Exception):
    """Mistakes in a pipeline's settings, one line each."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of README.md. `query` is PIPELINE_SQL or the text of PIPELINE_SQL_FILE."""

    schema: str
    query: str
    parquet: str
    database: str = field(repr=False)  # may hold a password
    table: str
    window: str
    window_time: str
    window_by: tuple[str, ...]
    window_values: str


_DEFAULTS = {
    "PIPELINE_SCHEMA": "",
    "PIPELINE_SQL": "",
    "PIPELINE_SQL_FILE": "",
    "PIPELINE_PARQUET": "pipeline.parquet",
    "PIPELINE_DATABASE": "sqlite:///pipeline.sqlite",
    "PIPELINE_TABLE": "totals",
    "PIPELINE_WINDOW": "1 minute",
    "PIPELINE_WINDOW_TIME": "timestamp",
    "PIPELINE_WINDOW_BY": "",
    "PIPELINE_WINDOW_VALUES": "count(*) AS records",
}


def read_settings(env: Mapping[str, str]) -> Settings:
    """Read the settings; an empty variable has its default.

    Raises PipelineError with every mistake that shows without Spark and the database.
    """
    # Collected, so that one start names all mistakes.
    problems = [_unknown(name) for name in env if name.startswith(_PREFIX) and name not in _DEFAULTS]
    values = {name: env.get(name, "").strip() or default for name, default in _DEFAULTS.items()}
    if not values["PIPELINE_SCHEMA"]:
        problems.append("PIPELINE_SCHEMA is not set; write a record's fields, like id STRING, amount DOUBLE")
    query = values["PIPELINE_SQL"] or _ALL_ROWS
    if name := values["PIPELINE_SQL_FILE"]:
        if values["PIPELINE_SQL"]:
            problems.append("PIPELINE_SQL and PIPELINE_SQL_FILE are both set; keep one")
        query = _read(name, problems)
    if problems:
        raise PipelineError("\n".join(problems))
    return Settings(
        schema=values["PIPELINE_SCHEMA"],
        query=query.strip().rstrip(";"),
        parquet=values["PIPELINE_PARQUET"],
        database=values["PIPELINE_DATABASE"],
        table=values["PIPELINE_TABLE"],
        window=values["PIPELINE_WINDOW"],
        window_time=values["PIPELINE_WINDOW_TIME"],
        window_by=tuple(filter(None, map(str.strip, values["PIPELINE_WINDOW_BY"].split(",")))),
        window_values=values["PIPELINE_WINDOW_VALUES"],
    )


def _unknown(name: str) -> str:
    # cutoff=0: whatever the name, one is found.
    (nearest,) = difflib.get_close_matches(name, _DEFAULTS, n=1, cutoff=0)
    return f"{name} is no setting of the pipeline; the nearest is {nearest}"


def _read(name: str, problems: list[str]) -> str:
    """Read a file. A relative name is looked for along sys.path, the function's folder first."""
    paths = (Path(folder, name) for folder in sys.path)
    path = next(filter(os.path.isfile, paths), Path(name))  # Path.is_file may raise before 3.14
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"PIPELINE_SQL_FILE: {name} cannot be read: {error}; put it beside function.yaml")
        # Stands in for the text, as the problem is raised together with all others.
        return ""
