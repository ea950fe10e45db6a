"""Log lines and prints of a worker process, on their way to its processor."""

import io
import json
import logging
import sys
from collections.abc import Callable
from typing import Any

SendLog = Callable[[dict[str, object]], None]


class WireLogHandler(logging.Handler):
    """Sends each record of Python's logging, with the values bound by nuclio_sdk's `*_with` calls."""

    def __init__(self, send: SendLog) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging, in whatever thread logs. A line that can't be made fails no record."""
        try:
            self._send(_line(record))
        except Exception:
            self.handleError(record)


def _line(record: logging.LogRecord) -> dict[str, object]:
    message = record.getMessage()
    if record.exc_info:
        message += "\n" + logging.Formatter().formatException(record.exc_info)
    bound = getattr(record, "with", {})
    values = {str(key): _plain(value) for key, value in bound.items()} if isinstance(bound, dict) else {}
    return {"level": record.levelno, "message": message, "with": values}


def _plain(value: object) -> object:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return repr(value)


class LineSink(io.RawIOBase):
    """Stands in for stdout or stderr: each finished line becomes a log line."""

    def __init__(self, send: SendLog, level: int, fd: int) -> None:
        self._send = send
        self._level = level
        self._fd = fd
        self._unfinished = b""

    def fileno(self) -> int:
        """The real file's, for child processes that are given this one to write to."""
        return self._fd

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:
        """Keep what follows the last newline until its line ends."""
        *lines, self._unfinished = (self._unfinished + bytes(data)).split(b"\n")
        for line in lines:
            self._send({"level": self._level, "message": line.decode(errors="backslashreplace"), "with": {}})
        return len(data)


def _stream(send: SendLog, level: int, fd: int) -> io.TextIOWrapper:
    sink = io.BufferedWriter(LineSink(send, level, fd))
    return io.TextIOWrapper(sink, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def restore_output() -> None:
    """In a process that the handler has forked: back to the real files."""
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    logging.basicConfig(level=logging.INFO, force=True)


def redirect_output(send: SendLog) -> None:
    """From now on, logging and print in this process go through `send`."""
    logging.basicConfig(level=logging.INFO, handlers=[WireLogHandler(send)], force=True)
    sys.stdout = _stream(send, logging.INFO, 1)
    sys.stderr = _stream(send, logging.WARNING, 2)
