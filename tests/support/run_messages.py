"""Messages as the ingestion's workers get them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from headrace.functions.run_tracking.ingestion.folding import Sourced
from headrace.functions.run_tracking.messages.envelopes import read_message

BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)


def value(type_: str, run_id: str = "r", after: float = 0, **payload: Any) -> bytes:
    """As an envelope of Matyan's says it."""
    time = (BEGAN + timedelta(seconds=after)).isoformat()
    return json.dumps({"type": type_, "run_id": run_id, "timestamp": time, "payload": payload}).encode()


class Log:
    """Messages one after another, each with a source of its own."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count()

    def __call__(self, type_: str, run_id: str = "r", after: float = 0, **payload: Any) -> Sourced:
        source = f"data-ingestion/0/{next(self._numbers)}/0"
        return Sourced(source, read_message(value(type_, run_id, after, **payload)))
