"""Log handlers of a process: stderr, and the last lines for the admin server's page."""

import contextlib
import logging
import os
import queue
import sys
import threading
from collections import deque
from typing import Any, Literal

from headrace.runtime.log_lines import HANDLER_LOG, ConsoleFormatter, JsonFormatter

QUEUED_LINES = 10_000
QUEUED_BYTES = 16 << 20
CLOSE_SECONDS = 1.0
_MOST_TAIL_LINES = 200
_MOST_TAIL_CHARS = 500
LogFormat = Literal["console", "json"]


def _drop_notice(count: int) -> logging.LogRecord:
    message = "%d log lines were dropped: nobody read this log"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, (count,), None)


def _size(line: str) -> int:
    return len(line) if line.isascii() else 4 * len(line)


class StderrHandler(logging.Handler):
    """Writes to stderr from a thread of its own.

    A terminal that is held, or a full pipe, must not hold up heartbeats. While nobody reads, up to
    QUEUED_LINES and QUEUED_BYTES wait. The rest is dropped: a line says how many.
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
        """Queue the line. Never blocks."""
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
        """Queue a line. Raises queue.Full where too many lines, or bytes, wait."""
        with self._counting:
            if self._bytes + _size(line) > QUEUED_BYTES:
                raise queue.Full
            self._lines.put_nowait(line)
            self._bytes += _size(line)

    def close(self) -> None:
        """Write what is queued, unless nobody reads. Called by logging when the process ends."""
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
    """Whether a record may be logged: not the Kafka client's debug lines of requests that sign in."""
    args = record.args if record.name == "aiokafka.conn" and isinstance(record.args, tuple) else ()
    return not any(type(arg).__name__.startswith("SaslAuthenticate") for arg in args)


def set_up_logging(level: str, log_format: LogFormat, replica: str = "") -> None:
    """Configure all logging of this process. `replica` marks its lines where several share a terminal.

    `level` is one of Python's, or trace: debug, with all that the Kafka client and asyncio say.
    """
    handler = StderrHandler()
    handler.setFormatter(
        JsonFormatter(replica)
        if log_format == "json"
        else ConsoleFormatter(replica, has_colours=_is_terminal())
    )
    handler.addFilter(has_no_credentials)
    is_trace = level == "trace"
    logging.basicConfig(level="DEBUG" if is_trace else level.upper(), handlers=[handler], force=True)
    logging.getLogger(HANDLER_LOG).setLevel(logging.DEBUG)  # workers send no more than is to be shown
    # The client reports each step of a rebalance, and each failed connection, as a warning or an error.
    # We say what follows from them ourselves.
    client_logger = logging.getLogger("aiokafka")
    client_logger.propagate = level in {"debug", "trace"}
    client_logger.addHandler(logging.NullHandler())
    if not is_trace:
        for name in ("aiokafka", "asyncio"):  # each request that there is
            logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


def _is_terminal() -> bool:
    """Whether stderr is the terminal of a person who wants colours."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class LogTail(logging.Handler):
    """Keeps the last lines of the log. Whoever adds it to a logger takes it off again."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(has_no_credentials)
        self._lines: deque[dict[str, Any]] = deque(maxlen=_MOST_TAIL_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line. Called by the logger, on whichever thread."""
        try:
            text = record.getMessage()
        except Exception:  # the handler of stderr reports a line that can't be made
            return
        self._lines.append(
            {"time": round(record.created, 3), "level": record.levelname, "text": text[:_MOST_TAIL_CHARS]}
        )

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines as JSON, oldest first."""
        return list(self._lines)


LOG_TAIL = LogTail()
"""The tail of this process's log: a process has one."""
