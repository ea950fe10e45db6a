"""The last lines of this process's log, for the admin server's page."""

import logging
from collections import deque
from typing import Any

from headrace.runtime.log import has_no_credentials

_MOST_TAIL_LINES = 200
_MOST_TAIL_CHARS = 500


class LogTail(logging.Handler):
    """Keeps them. Who adds it to a logger takes it off again."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(has_no_credentials)
        self._lines: deque[dict[str, Any]] = deque(maxlen=_MOST_TAIL_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Called by the logger, on whichever thread."""
        try:
            text = record.getMessage()
        except Exception:  # what a handler of a log can't show, the others say
            return
        self._lines.append(
            {"time": round(record.created, 3), "level": record.levelname, "text": text[:_MOST_TAIL_CHARS]}
        )

    def lines(self) -> list[dict[str, Any]]:
        """Oldest first."""
        return list(self._lines)


LOG_TAIL = LogTail()
"""Of the process: it has one log."""
