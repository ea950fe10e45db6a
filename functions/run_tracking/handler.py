"""Five parts in one function, a trigger each. Workers of a trigger load their own part, and no other's.

Each part has `prepare(context, settings)`, once in a worker, and `handle(context, event)`.
"""

import importlib
import os
from typing import Any

from headrace.functions.run_tracking.settings import read_settings

_PARTS = {
    "ingestion": "headrace.functions.run_tracking.ingestion.service",
    "control": "headrace.functions.run_tracking.control",
    "frontier": "headrace.functions.run_tracking.frontier.service",
    "backend": "headrace.functions.run_tracking.backend.service",
    "summaries": "headrace.functions.run_tracking.summaries.service",
}


def init_context(context: Any) -> None:
    """Find every mistake before the first message. Raises SettingsError."""
    part = importlib.import_module(_PARTS[context.trigger_name])
    part.prepare(context, read_settings(os.environ))
    context.user_data.part = part


def handler(context: Any, event: Any) -> Any:
    """What the trigger's part makes of it; of an async part it is a coroutine."""
    return context.user_data.part.handle(context, event)
