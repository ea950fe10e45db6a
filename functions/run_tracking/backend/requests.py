"""Parsing and checks of queries and bodies. Every function raises RequestError for what isn't valid."""

import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.functions.run_tracking.backend.responses import RequestError, check_run_id
from headrace.functions.run_tracking.messages.validation import check_context
from headrace.functions.run_tracking.store.curves import StepRange

_DEFAULT_DENSITY = 50
_MOST_DENSITY = 100_000
_MOST_TRACES = 10_000  # of one request
_MOST_IDS = 1_000
_MOST_NAME = 512  # the same limit as in clients' items
_MOST_LETTERS = {"name": _MOST_NAME, "description": 100_000, "experiment": _MOST_NAME}
# Any number of 18 digits fits into the 64 bits of the column.
_RANGE = re.compile(r"(-?\d{1,18})?[,:](-?\d{1,18})?")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # characters that PostgreSQL's text can't hold
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def check_fields(fields: Mapping[str, str | list[str]]) -> None:
    """Refuse a query that has a name more than once."""
    for name, values in fields.items():
        if not isinstance(values, str):
            raise RequestError(400, f"{name[:200]} is there {len(values)} times: give it once")


def whole_number(fields: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """Return a whole number from `least` to `most`."""
    text = fields.get(name) or str(default)
    # isdecimal alone accepts digits of other scripts, and int raises an error for thousands of digits.
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise RequestError(400, f"{name} has to be a whole number from {least} to {most}")
    return int(text)


def boolean(fields: Mapping[str, str], name: str) -> bool | None:
    """Return true or false; None if the field is missing."""
    if not (text := fields.get(name, "").lower()):
        return None
    if text not in _TRUTHS:
        raise RequestError(400, f"{name} has to be true or false")
    return _TRUTHS[text]


def storable(text: str, what: str) -> str:
    """Return `text` if a database can store it."""
    if _UNSTORABLE.search(text):
        raise RequestError(400, f"{what} has a character that no text has")
    return text


def step_range(fields: Mapping[str, str]) -> StepRange:
    """Parse `record_density` and `record_range`, which is START:STOP or START,STOP."""
    density = whole_number(fields, "record_density", _DEFAULT_DENSITY, 2, _MOST_DENSITY)
    if not (text := fields.get("record_range", "").strip()):
        return StepRange(density)
    if (found := _RANGE.fullmatch(text)) is None:
        raise RequestError(400, "record_range has to be START:STOP, two whole numbers")
    start, stop = (None if part is None else int(part) for part in found.groups())
    return StepRange(density, start, stop)


def json_body(event: Any) -> Any:
    """Parse the body as JSON, whatever its content type."""
    # The trigger has read the body as JSON already where its type is exactly application/json.
    if not isinstance(event.body, bytes | str):
        return event.body
    try:
        return json.loads(event.body)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is no JSON") from None


def json_object(event: Any) -> Mapping[str, Any]:
    """Parse a body that has to be an object."""
    if not isinstance(found := json_body(event), dict):
        raise RequestError(400, "the body has to be an object")
    return found


def run_ids(event: Any) -> list[str]:
    """Parse a body that is a list of run ids. Matyan's client sends {} for an empty list."""
    found = json_body(event) or []
    is_list = isinstance(found, list) and all(isinstance(run_id, str) for run_id in found)
    if not is_list or len(found) > _MOST_IDS:
        raise RequestError(400, f"the body has to be a list of at most {_MOST_IDS} ids of runs")
    return [check_run_id(run_id) for run_id in found]


def traces(event: Any) -> list[tuple[str, dict[str, Any]]]:
    """Parse a list of metric names and contexts. Matyan's client sends {} for an empty list."""
    found = json_body(event) or []
    if not isinstance(found, list) or len(found) > _MOST_TRACES:
        raise RequestError(400, f"the body has to be a list of at most {_MOST_TRACES} names and contexts")
    return [_trace(trace) for trace in found]


def _trace(trace: Any) -> tuple[str, dict[str, Any]]:
    context = trace.get("context") or {} if isinstance(trace, dict) else None
    if not isinstance(context, dict) or not isinstance(trace.get("name"), str):
        raise RequestError(400, 'each trace has to be {"name": text, "context": an object}')
    try:
        check_context(context)
    except ValueError as error:
        raise RequestError(400, f"a trace: {error}") from None
    return storable(trace["name"], "name"), context


def name_in(body: Mapping[str, Any], member: str) -> str:
    """Return the name of an experiment or a tag from the body."""
    name = body.get(member)
    if not isinstance(name, str) or not 1 <= len(name) <= _MOST_NAME:
        raise RequestError(400, f"{member} has to be a text of 1 to {_MOST_NAME} characters")
    return storable(name, member)


def changes_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a run that a PUT sets. A missing or null one stays as it is."""
    found: dict[str, Any] = {}
    for member, kind in (("name", str), ("description", str), ("experiment", str), ("archived", bool)):
        if (value := body.get(member)) is None:
            continue
        if not isinstance(value, kind):
            raise RequestError(400, f"{member} has to be a {'text' if kind is str else 'truth value'}")
        if isinstance(value, str) and len(value) > (most := _MOST_LETTERS[member]):
            raise RequestError(400, f"{member} has {len(value)} characters: at most {most}")
        found[member] = storable(value, member) if isinstance(value, str) else value
    return found
