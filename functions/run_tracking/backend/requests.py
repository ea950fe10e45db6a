"""What requests say, checked: their queries and bodies. All raise RequestError for what isn't so."""

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
_MOST_NAME = 512  # as of a client's items
_MOST_LETTERS = {"name": _MOST_NAME, "description": 100_000, "experiment": _MOST_NAME}
_RANGE = re.compile(r"(-?\d{1,18})?[,:](-?\d{1,18})?")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # PostgreSQL's text has none of them
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def check_fields(fields: Mapping[str, str | list[str]]) -> None:
    """Each may be there once."""
    for name, said in fields.items():
        if not isinstance(said, str):
            raise RequestError(400, f"{name[:200]} is there {len(said)} times: give it once")


def number(fields: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """A whole one from `least` to `most`."""
    text = fields.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise RequestError(400, f"{name} has to be a whole number from {least} to {most}")
    return int(text)


def truth(fields: Mapping[str, str], name: str) -> bool | None:
    """None where it isn't said."""
    if not (text := fields.get(name, "").lower()):
        return None
    if text not in _TRUTHS:
        raise RequestError(400, f"{name} has to be true or false")
    return _TRUTHS[text]


def storable(text: str, what: str) -> str:
    """The same, where a database can hold it."""
    if _UNSTORABLE.search(text):
        raise RequestError(400, f"{what} has a character that no text has")
    return text


def steps(fields: Mapping[str, str]) -> StepRange:
    """Of `record_density` and `record_range`, which is written START:STOP or START,STOP."""
    density = number(fields, "record_density", _DEFAULT_DENSITY, 2, _MOST_DENSITY)
    if not (text := fields.get("record_range", "").strip()):
        return StepRange(density)
    if (found := _RANGE.fullmatch(text)) is None:
        raise RequestError(400, "record_range has to be START:STOP, two whole numbers")
    start, stop = (None if part is None else int(part) for part in found.groups())
    return StepRange(density, start, stop)


def document(event: Any) -> Any:
    """The body as JSON, whichever type it says to be of."""
    if not isinstance(event.body, bytes | str):
        return event.body
    try:
        return json.loads(event.body)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is no JSON") from None


def members(event: Any) -> Mapping[str, Any]:
    """Of a body that is an object."""
    if not isinstance(found := document(event), dict):
        raise RequestError(400, "the body has to be an object")
    return found


def run_ids(event: Any) -> list[str]:
    """Of a body that is a list of them. Matyan's clients say {} for an empty one."""
    found = document(event) or []
    is_list = isinstance(found, list) and all(isinstance(run_id, str) for run_id in found)
    if not is_list or len(found) > _MOST_IDS:
        raise RequestError(400, f"the body has to be a list of at most {_MOST_IDS} ids of runs")
    return [check_run_id(run_id) for run_id in found]


def traces(event: Any) -> list[tuple[str, dict[str, Any]]]:
    """Name and context of each. Matyan's clients say {} for none."""
    found = document(event) or []
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


def named(body: Mapping[str, Any], member: str) -> str:
    """Of an experiment, or of a tag."""
    name = body.get(member)
    if not isinstance(name, str) or not 1 <= len(name) <= _MOST_NAME:
        raise RequestError(400, f"{member} has to be a text of 1 to {_MOST_NAME} characters")
    return storable(name, member)


def changes_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a PUT has of a run's properties. What is null, or isn't there, stays as it is."""
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
