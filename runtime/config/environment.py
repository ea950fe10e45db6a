"""Environment variables of a function's workers: `spec.env`."""

from headrace.runtime.settings.findings import Findings, ResolvedSetting, hidden_setting
from headrace.runtime.settings.names import Suggestions
from headrace.runtime.settings.written_values import MissingVariableError, text_of_scalar
from headrace.runtime.settings.yaml_source import Path

_ENV: Path = ("spec", "env")
_KEYS = ("name", "value", "valueFrom")
_DASHBOARD_KEY = "type"
ENV_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[^=]+$"},
            "value": {"type": ["string", "number", "boolean", "null"]},
            # Whatever is in it: it is left out with a notice.
            "valueFrom": {},
            _DASHBOARD_KEY: {"type": "string"},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
}


def read_environment(written: object, findings: Findings) -> dict[str, str]:
    """Return name to value, in the file's order. Values may be secrets: no message shows one."""
    if not isinstance(written, list):
        findings.problem(_ENV, "expected a list of entries with name and value")
        return {}
    env: dict[str, str] = {}
    places: dict[str, ResolvedSetting] = {}  # by name: of several entries for one, the last is in effect
    for at, entry in enumerate(written):
        path = (*_ENV, at)
        if faults := _faults(entry, path, findings.source.suggestions):
            for where, message in faults:
                findings.problem(where, message)
        elif entry.get("valueFrom"):  # a secret or config map of the cluster
            message = "is left out: only a cluster can look it up; set it where Headrace runs"
            findings.notice((*path, "valueFrom"), message)
        else:
            name = str(text_of_scalar(entry["name"]))
            if name in env:
                findings.notice(path, f"sets {name!r} again; this one counts")
            value, variables = _expanded(entry, path, findings)
            env[name] = str(text_of_scalar(value))
            places[name] = hidden_setting((*_ENV, name), path, findings.source, variables)
            if _DASHBOARD_KEY in entry:
                why = "has no effect here: Nuclio's dashboard writes it"
                findings.notice((*path, _DASHBOARD_KEY), why)
    findings.settings.extend(places.values())
    return env


def _expanded(entry: dict[str, object], path: Path, findings: Findings) -> tuple[object, tuple[str, ...]]:
    try:
        return findings.source.expanded(entry.get("value"))
    except MissingVariableError as missing:
        findings.problem((*path, "value"), str(missing))
        return "", ()


def _faults(entry: object, path: Path, suggestions: Suggestions) -> list[tuple[Path, str]]:
    if not isinstance(entry, dict):
        return [(path, "expected a mapping with name and value")]
    # "type" is no key of Kubernetes: Nuclio's dashboard writes it, and only a notice is due.
    faults: list[tuple[Path, str]] = [
        ((*path, key), suggestions.unknown(key, _KEYS))
        for key in entry
        if key not in (*_KEYS, _DASHBOARD_KEY)
    ]
    name, value = text_of_scalar(entry.get("name")), text_of_scalar(entry.get("value"))
    # To a process a variable is NAME=VALUE up to a NUL: a name can have neither, a value no NUL.
    if not isinstance(name, str) or not name or set("=\0") & set(name):
        faults.append(((*path, "name"), "expected the name of a variable, without ="))
    if not isinstance(value, str) or "\0" in value:
        faults.append(((*path, "value"), "expected text, a number, true or false"))
    return faults
