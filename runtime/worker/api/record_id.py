"""Which record a task works for: log lines of a task belong to that one, not to whichever runs meanwhile."""

from contextvars import ContextVar
from typing import Any, NamedTuple


class RecordId(NamedTuple):
    """A record."""

    topic: str
    partition: int
    offset: int


CURRENT_RECORD: ContextVar[Any] = ContextVar("headrace_headers", default=None)
"""Set with it: that record, whose headers go along with what is produced for it."""
CURRENT_RECORD_ID: ContextVar[RecordId | None] = ContextVar("headrace_record", default=None)
"""Set in tasks that a handler has created, and where records run at once. Elsewhere the slot says it."""
