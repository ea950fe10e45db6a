"""The handler of run_tracking: five services in one function, one for each trigger.

A worker belongs to one trigger and imports that trigger's service only. Each service has
`prepare(context, settings)`, called once in a worker, and `handle(context, event)`.
"""

import importlib
import os
from typing import Any

from headrace.functions.run_tracking.settings import read_settings

# The keys are the names of the triggers in function.yaml.
_SERVICES = {
    "ingestion": "headrace.functions.run_tracking.ingestion.service",
    "control": "headrace.functions.run_tracking.control.service",
    "frontier": "headrace.functions.run_tracking.frontier.service",
    "backend": "headrace.functions.run_tracking.backend.service",
    "summaries": "headrace.functions.run_tracking.summaries.service",
}


def init_context(context: Any) -> None:
    """Check all settings and prepare the trigger's service. Raises SettingsError."""
    service = importlib.import_module(_SERVICES[context.trigger_name])
    service.prepare(context, read_settings(os.environ))
    context.user_data.service = service


def handler(context: Any, event: Any) -> Any:
    """Return what the trigger's service makes of an event; a coroutine from an async one."""
    return context.user_data.service.handle(context, event)
