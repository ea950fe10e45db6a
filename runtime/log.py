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

from headrace.runtime.errors import printable, printable_lines

QUEUED_LINES = 10_000
QUEUED_BYTES = 16 << 20
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
        bound = "".join(f"  {key}={printable(str(value))}" for key, value in _bound(record).items())
        # What follows in a message stands indented: no record's text passes for a line of its own.
        message = printable_lines(_message(record).replace("\t", "    ")).replace("\n", "\n    ")
        line = f"{clock}.{record.msecs:03.0f} {self._prefix}{record.levelname:<7} {message}{bound}"
        return (
            f"{line}\n{printable_lines(self.formatException(record.exc_info))}" if record.exc_info else line
        )


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


def _size(line: str) -> int:
    return len(line) if line.isascii() else 4 * len(line)


class StderrHandler(logging.Handler):
    """Writes from a thread of its own: a terminal that is held, or a full pipe, must not hold up heartbeats.

    While nobody reads, up to QUEUED_LINES and QUEUED_BYTES wait. The rest is dropped: a line says how many.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str | None] = queue.Queue(QUEUED_LINES)
        self._dropped = 0
        self._bytes = 0  # at most, of the lines that wait
        self._counting = threading.Lock()
        self._writer = threading.Thread(target=self._write, name="log", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Never blocks."""
        try:
            if self._dropped:
                self._put(f"{self.format(_drop_notice(self._dropped))}\n{self.format(record)}")
                self._dropped = 0
            else:
                self._put(self.format(record))
        except queue.Full:
            self._dropped += 1
        except Exception:
            self.handleError(record)  # a line that can't be made is no reason to fail

    def _put(self, line: str) -> None:
        """Raises queue.Full."""
        with self._counting:
            if self._bytes + _size(line) > QUEUED_BYTES:
                raise queue.Full
            self._lines.put_nowait(line)
            self._bytes += _size(line)

    def close(self) -> None:
        """Write what waits, unless nobody reads. Called by logging when the process ends."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
            self._writer.join(CLOSE_SECONDS)
        super().close()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            with self._counting:
                self._bytes -= _size(line)
            with contextlib.suppress(OSError, ValueError):  # whoever read it may be gone, or be back
                sys.stderr.write(line + "\n")
                sys.stderr.flush()


def has_no_credentials(record: logging.LogRecord) -> bool:
    """The client shows each request at level debug: not those that sign in."""
    args = record.args if record.name == "aiokafka.conn" and isinstance(record.args, tuple) else ()
    return not any(type(arg).__name__.startswith("SaslAuthenticate") for arg in args)


def set_up_logging(level: str, log_format: LogFormat, replica: str = "") -> None:
    """All of this process's log lines, from now on. `replica` marks them where several share a terminal."""
    handler = StderrHandler()
    handler.setFormatter((JsonFormatter if log_format == "json" else ConsoleFormatter)(replica))
    handler.addFilter(has_no_credentials)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger(HANDLER_LOG).setLevel(logging.DEBUG)  # workers send no more than is to be shown
    # The client reports each step of a rebalance, and each failed connection, as a warning or an error.
    # We say what follows from them ourselves.
    client_logger = logging.getLogger("aiokafka")
    client_logger.propagate = level.upper() == "DEBUG"
    client_logger.addHandler(logging.NullHandler())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
