"""Log lines and prints of a worker process, on their way to its processor."""

import io
import json
import logging
import sys
from collections.abc import Callable

SendLog = Callable[[dict[str, object]], None]


class WireLogHandler(logging.Handler):
    """Sends each record of Python's logging, with the values bound by nuclio_sdk's `*_with` calls."""

    def __init__(self, send: SendLog) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging, in whatever thread logs."""
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        bound = json.loads(json.dumps(getattr(record, "with", {}), default=str))
        self._send({"level": record.levelno, "message": message, "with": bound})


class LineWriter(io.TextIOBase):
    """Stands in for stdout or stderr: each finished line becomes a log line."""

    def __init__(self, send: SendLog, level: int) -> None:
        self._send = send
        self._level = level
        self._unfinished = ""

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, text: str) -> int:
        """Keep what follows the last newline until its line ends."""
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._send({"level": self._level, "message": line, "with": {}})
        return len(text)


def redirect_output(send: SendLog) -> None:
    """From now on, logging and print in this process go through `send`."""
    logging.basicConfig(level=logging.INFO, handlers=[WireLogHandler(send)], force=True)
    sys.stdout = LineWriter(send, logging.INFO)
    sys.stderr = LineWriter(send, logging.WARNING)
