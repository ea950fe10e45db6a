"""Whether a file was written by mlrun, whose functions expect some things to be Nuclio's own way."""

from collections.abc import Mapping
from typing import Any

_LABELS = "mlrun/"
_VARIABLES = ("MLRUN_", "SERVING_SPEC_ENV")


def is_from_mlrun(document: Mapping[str, Any]) -> bool:
    """By its labels, or by the variables that mlrun gives each function. `document`: as it is written."""
    spec, about = document.get("spec"), document.get("metadata") or document.get("meta")
    labels = about.get("labels") if isinstance(about, dict) else None
    env = spec.get("env") if isinstance(spec, dict) else None
    names = [entry.get("name") for entry in env if isinstance(entry, dict)] if isinstance(env, list) else []
    return any(str(label).startswith(_LABELS) for label in labels or ()) or any(
        str(name).startswith(_VARIABLES) for name in names
    )
