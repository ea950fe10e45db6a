"""Log lines of a processor and its handlers, on stderr."""

import contextlib
import contextvars
import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from nuclio_sdk.json_encoder import Encoder

QUEUED_LINES = 10_000
CLOSE_SECONDS = 1.0

HANDLER_LOG = "handler"
"""The logger of what handlers log and print."""

LogFormat = Literal["console", "json"]

_told_apart_by: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "log", default=MappingProxyType({})
)
_of_handlers: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "of_handlers", default=MappingProxyType({})
)


def context_bound_to(of_handlers: Mapping[str, str], **values: str) -> contextvars.Context:
    """A context to start tasks in: `values` stand at each line that they, or what they start, log.

    `of_handlers` stand at the lines that handlers of theirs log.
    """
    context = contextvars.copy_context()
    context.run(_told_apart_by.set, values)
    context.run(_of_handlers.set, of_handlers)
    return context


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
        try:
            return json.dumps(line, default=str, allow_nan=False)
        except ValueError:  # no JSON: NaN or Infinity, as a text then
            return json.dumps(line, default=str, cls=Encoder)


def _bound(record: logging.LogRecord) -> dict[str, Any]:
    of_handlers = _of_handlers.get() if record.name == HANDLER_LOG else {}
    return {**_told_apart_by.get(), **of_handlers, **getattr(record, "bound", {})}


def _message(record: logging.LogRecord) -> str:
    return f"handler: {record.getMessage()}" if record.name == HANDLER_LOG else record.getMessage()


def _drop_notice(count: int) -> logging.LogRecord:
    message = "%d log lines were dropped: nobody read this log"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, (count,), None)


class StderrHandler(logging.Handler):
    """Writes from a thread of its own: a terminal that is held, or a full pipe, must not hold up heartbeats.

    While nobody reads, up to QUEUED_LINES wait and the rest is dropped, with a line that says how many.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str | None] = queue.Queue(QUEUED_LINES)
        self._dropped = 0
        self._writer = threading.Thread(target=self._write, name="log", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Never blocks."""
        try:
            if self._dropped:
                self._lines.put_nowait(self.format(_drop_notice(self._dropped)))
                self._dropped = 0
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1
        except Exception:
            self.handleError(record)  # a line that can't be made is no reason to fail

    def close(self) -> None:
        """Write what waits, unless nobody reads. Called by logging when the process ends."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
            self._writer.join(CLOSE_SECONDS)
        super().close()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            with contextlib.suppress(OSError, ValueError):  # whoever read it may be gone, or be back
                sys.stderr.write(line + "\n")
                sys.stderr.flush()


def set_up_logging(level: str, log_format: LogFormat, replica: str = "") -> None:
    """All of this process's log lines, from now on. `replica` marks them where several share a terminal."""
    handler = StderrHandler()
    handler.setFormatter((JsonFormatter if log_format == "json" else ConsoleFormatter)(replica))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger(HANDLER_LOG).setLevel(logging.DEBUG)  # workers send no more than is to be shown
    # The client reports each step of a rebalance, and each failed connection, as a warning or an error.
    # We say what follows from them ourselves.
    client_logger = logging.getLogger("aiokafka")
    client_logger.propagate = level.upper() == "DEBUG"
    client_logger.addHandler(logging.NullHandler())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
