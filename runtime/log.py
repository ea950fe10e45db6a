"""Log lines of a processor and its handlers, on stderr."""

import json
import logging
import sys
import time
from typing import Any, Literal

LogFormat = Literal["console", "json"]


class ConsoleFormatter(logging.Formatter):
    """`08:24:21.123 WARNING message  key=value`. `bound` values come from `extra={"bound": {...}}`."""

    def __init__(self, replica: str) -> None:
        super().__init__()
        self._prefix = f"{replica} " if replica else ""

    def format(self, record: logging.LogRecord) -> str:
        """One line, tracebacks below it."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        bound = "".join(f"  {key}={value}" for key, value in _bound(record).items())
        line = f"{clock}.{record.msecs:03.0f} {self._prefix}{record.levelname:<7} {_message(record)}{bound}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, for log collectors."""

    def __init__(self, replica: str) -> None:
        super().__init__()
        self._replica = {"replica": replica} if replica else {}

    def format(self, record: logging.LogRecord) -> str:
        """Bound values stand beside the message."""
        line = {
            **_bound(record),
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._replica,
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _bound(record: logging.LogRecord) -> dict[str, Any]:
    return getattr(record, "bound", {})


def _message(record: logging.LogRecord) -> str:
    return f"handler: {record.getMessage()}" if record.name == "handler" else record.getMessage()


def set_up_logging(level: str, log_format: LogFormat, replica: str = "") -> None:
    """All of this process's log lines, from now on. `replica` marks them where several share a terminal."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JsonFormatter if log_format == "json" else ConsoleFormatter)(replica))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # The client reports each step of a rebalance, and each failed connection, as a warning or an error.
    # We say what follows from them ourselves.
    client_logger = logging.getLogger("aiokafka")
    client_logger.propagate = level.upper() == "DEBUG"
    client_logger.addHandler(logging.NullHandler())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
