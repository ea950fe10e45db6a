"""Log lines and prints of a worker process, on their way to its processor."""

import io
import json
import logging
import os
import sys
import sysconfig
from collections import deque
from collections.abc import Callable
from typing import Any

from nuclio_sdk.json_encoder import Encoder

from headrace.runtime.wire.framing import MAX_LINE, MAX_REASON, bounded
from headrace.runtime.worker.api.context import HANDLER_LOGGER
from headrace.runtime.worker.api.serial_writer import SerialWriter

SendLog = Callable[[dict[str, object]], None]
_MAX_LINE_BYTES = 32_768
# What any record of logging has: all else was given as `extra`.
_OWN_ATTRIBUTES = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_INSTALLED = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib"))


class WireLogHandler(logging.Handler):
    """Sends each record of Python's logging, with the values of nuclio_sdk's `*_with`, and of `extra`."""

    def __init__(self, send: SendLog, level: int = logging.NOTSET) -> None:
        super().__init__(level)  # nuclio_sdk's logger asks no other
        self.addFilter(is_users)
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send a log record, in whatever thread logs. A line that can't be made fails no handler."""
        try:
            self._send(_line(record))
        except Exception:
            self.handleError(record)


def _line(record: logging.LogRecord) -> dict[str, object]:
    extra = {key: value for key, value in vars(record).items() if key not in _OWN_ATTRIBUTES}
    # nuclio_sdk's logger gives all its values as one attribute of this name.
    if isinstance(extra.get("with"), dict):
        extra |= extra.pop("with")
    line = {
        "level": record.levelno,
        "message": bounded(record.getMessage(), MAX_LINE),
        "with": {str(key): _plain(value) for key, value in extra.items()},
    }
    if record.name not in {"root", HANDLER_LOGGER}:
        line["source"] = bounded(record.name, MAX_REASON)
    if record.exc_info:
        line["error"] = bounded(logging.Formatter().formatException(record.exc_info), MAX_REASON)
    return line


def is_users(record: logging.LogRecord) -> bool:
    """Whether a log record is sent: from info on all are, below only those of the user's own loggers.

    Libraries say much there: they are heard where somebody has set their logger's level.
    """
    is_own = record.name.startswith("headrace.") or not record.pathname.startswith(_INSTALLED)
    return record.levelno >= logging.INFO or is_own or _has_level(record.name)


def _has_level(name: str) -> bool:
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None and logger is not logging.root:
        if logger.level:
            return True
        logger = logger.parent
    return False


def _plain(value: object) -> object:
    try:
        return json.loads(json.dumps(value, cls=Encoder))
    except (TypeError, ValueError, RecursionError):
        return repr(value)


class LineSink(io.RawIOBase):
    """Stands in for stdout or stderr: each finished line becomes a log line, a very long one several.

    A carriage return ends a line too, as of a progress bar, but no empty one.
    """

    def __init__(self, send: SendLog, level: int, fd: int) -> None:
        self._send = send
        self._level = level
        self._fd = fd
        self._line = bytearray()
        self._write = SerialWriter(self._take_in)

    def fileno(self) -> int:
        """Return the real file's descriptor, for child processes that are given this one to write to."""
        return self._fd

    def writable(self) -> bool:
        """Whether it can be written: always."""
        return True

    def write(self, data: Any) -> int:
        """Send the lines that end in `data`, and keep what follows the last end until its own comes."""
        text = bytes(data)
        self._write(text)
        return len(text)

    def _take_in(self, waiting: deque[bytes]) -> None:
        while waiting:
            *lines, rest = waiting.popleft().replace(b"\r\n", b"\n").split(b"\n")
            for line in lines:
                self._add(line)
                self._end_line()
            self._add(rest)

    def _add(self, text: bytes) -> None:
        *overwritten, rest = text.split(b"\r")
        for part in overwritten:
            self._append(part)
            if self._line:
                self._end_line()
        self._append(rest)

    def _append(self, text: bytes) -> None:
        self._line += text
        while len(self._line) > _MAX_LINE_BYTES:
            cut = _MAX_LINE_BYTES
            while cut > _MAX_LINE_BYTES - 4 and self._line[cut] & 0xC0 == 0x80:  # amid a character
                cut -= 1
            part = self._line[:cut]
            del self._line[:cut]  # from the left that moves nothing
            self._send_line(part)

    def _end_line(self) -> None:
        line, self._line = self._line, bytearray()
        self._send_line(line)

    def _send_line(self, line: bytearray) -> None:
        self._send({"level": self._level, "message": line.decode(errors="backslashreplace"), "with": {}})


def _stream(send: SendLog, level: int, fd: int) -> io.TextIOWrapper:
    # Without a BufferedWriter: to a signal handler that prints amid a print, that one raises.
    sink: Any = LineSink(send, level, fd)
    return io.TextIOWrapper(sink, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def restore_output() -> None:
    """Print to the real files again, in a process that the handler has forked."""
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    logging.basicConfig(level=logging.INFO, force=True)


def redirect_output(send: SendLog, level: int, *, has_terminal: bool = False) -> None:
    """Have logging from `level` on, and print, in this process go through `send` from now on.

    With a terminal prints stay prints: a debugger asks there, and a question is no whole line.
    """
    logging.basicConfig(level=level, handlers=[WireLogHandler(send, level)], force=True)
    if has_terminal:
        return
    sys.stdout = _stream(send, logging.INFO, 1)
    sys.stderr = _stream(send, logging.WARNING, 2)
