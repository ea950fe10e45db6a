"""Names that whoever has the same thing before them finds by themselves."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def context_id(context: Mapping[str, Any] | None) -> int:
    """As Matyan's clients compute it."""
    if not context:
        return 0
    canonical = json.dumps(context, sort_keys=True, separators=(",", ":"))
    return int(hashlib.sha256(canonical.encode()).hexdigest()[:8], 16)


def id_of_name(name: str) -> str:
    """Of an experiment, or of a tag."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]
