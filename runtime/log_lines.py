"""Formatters for the lines of the log: for people, or as JSON for log collectors.

Beside its message a record may have, by logging's `extra`: `bound`, a mapping of what the runtime knows of
it; `fields`, the same, where the message says it to people already; `given`, values of the handler's;
`source`, the name of the handler's own logger; `error`, a traceback.
"""

import contextvars
import json
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from headrace.runtime.errors import printable, printable_lines

HANDLER_LOG = "handler"
"""Name of the logger for what handlers log and print."""

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_COLOURS = {"DEBUG": _DIM, "WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m"}

_told_apart_by: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "log", default=MappingProxyType({})
)
_of_handlers: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "of_handlers", default=MappingProxyType({})
)


def context_bound_to(of_handlers: Mapping[str, str], **values: str) -> contextvars.Context:
    """Return a context to start tasks in, in which log lines have `values` beside their message.

    Tasks that these tasks start have them too. `of_handlers` stand at the lines that their handlers log.
    """
    context = contextvars.copy_context()
    context.run(_told_apart_by.set, values)
    context.run(_of_handlers.set, of_handlers)
    return context


class ConsoleFormatter(logging.Formatter):
    """Lines for people: `08:24:21.123 WARNING message key=value | given=value`, tracebacks below."""

    def __init__(self, replica: str, *, has_colours: bool = False) -> None:
        super().__init__()
        self._prefix = f"{replica} " if replica else ""
        self._has_colours = has_colours

    def format(self, record: logging.LogRecord) -> str:
        """Format the record; further lines are indented: no text in it passes for a line of its own."""
        # Local time, for people; JSON has UTC.
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        source = {"logger": record.source} if hasattr(record, "source") else {}
        bound, given = _pairs(_bound(record) | source), _pairs(getattr(record, "given", {}))
        message = printable_lines(_message(record).replace("\t", "    ")).replace("\n", "\n    ")
        level = self._coloured(f"{record.levelname:<7}", _COLOURS.get(record.levelname, ""))
        beside = self._coloured(bound + ("  |" + given if given else ""), _DIM)
        line = f"{clock}.{record.msecs:03.0f} {self._prefix}{level} {message}{beside}"
        return "\n".join([line, *(f"    {printable(it)}" for it in self._error(record).splitlines())])

    def _error(self, record: logging.LogRecord) -> str:
        return error_of(record, self)

    def _coloured(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._has_colours and colour and text else text


class JsonFormatter(logging.Formatter):
    """A JSON object for each line.

    The runtime's own values stand beside the message, the handler's in `with`.
    """

    def __init__(self, replica: str) -> None:
        super().__init__()
        self._replica = {"replica": replica} if replica else {}

    def format(self, record: logging.LogRecord) -> str:
        """Format the record. Times are ISO 8601, UTC."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": getattr(record, "source", record.name),
            "message": record.getMessage(),
            **self._replica,
            **_bound(record),
            **getattr(record, "fields", {}),
        }
        if given := getattr(record, "given", None):
            line["with"] = given
        if error := error_of(record, self):
            line["error"] = error
        try:
            return json.dumps(line, default=str, allow_nan=False)
        except ValueError:  # no JSON: NaN or Infinity, as a text then
            from nuclio_sdk.json_encoder import Encoder  # with http.client and ssl: commands don't need them

            return json.dumps(line, default=str, cls=Encoder)


def error_of(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    """Return the traceback that goes with a record, "" where none does."""
    error: str = getattr(record, "error", "")
    return error or (formatter.formatException(record.exc_info) if record.exc_info else "")


def _bound(record: logging.LogRecord) -> dict[str, Any]:
    of_handlers = _of_handlers.get() if record.name == HANDLER_LOG else {}
    return {**_told_apart_by.get(), **of_handlers, **getattr(record, "bound", {})}


def _pairs(values: Mapping[str, Any]) -> str:
    return "".join(f"  {printable(str(key))}={printable(str(value))}" for key, value in values.items())


def _message(record: logging.LogRecord) -> str:
    return f"handler: {record.getMessage()}" if record.name == HANDLER_LOG else record.getMessage()
