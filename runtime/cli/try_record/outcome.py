"""Outcome of a record that was tried, for people and for programs."""

import json
from collections.abc import Iterator
from dataclasses import asdict

from headrace.runtime.cli.records.formats import readable
from headrace.runtime.errors import one_line, printable, printable_lines
from headrace.runtime.testing.results import LogLine, TrialResult
from headrace.runtime.wire.produce import Message

_MOST_SHOWN = 1000


def log_line(line: LogLine) -> str:
    """Return a handler's log line; further lines of its message stand indented."""
    values = "".join(f"  {name}={value!r}" for name, value in line.values.items())
    message = printable_lines(line.message).replace("\n", "\n    ")
    return f"{line.level:8} {message}{printable(values)}"


def as_lines(result: TrialResult) -> Iterator[str]:
    """Yield the outcome, then what the handler returned and produced."""
    (outcome,) = result.outcomes  # of the one record
    did = "failed" if outcome.failure is not None else "ok"
    acked = "acked" if outcome.is_acked else "not acked"
    place = printable(f"{outcome.topic}/{outcome.partition}/{outcome.offset}")
    yield f"{place}: {did} after {result.handler_seconds * 1000:.1f} ms, {acked}"
    if outcome.failure is not None:
        yield from (f"    {printable(line)}" for line in outcome.failure.splitlines())
    elif outcome.result is not None:
        yield f"returned {one_line(repr(outcome.result), _MOST_SHOWN)}"
    yield from map(_message, result.produced)


def _message(message: Message) -> str:
    to = f"{message.output}: {message.topic}" if message.output else message.topic
    to += "" if message.partition is None else f"/{message.partition}"
    key, value = (
        "-" if data is None else data.decode(errors="backslashreplace")
        for data in (message.key, message.value)
    )
    return printable(f"would produce to {to}: {key} {value}")


def as_json_text(result: TrialResult) -> str:
    """Return the outcome as one JSON object.

    Bytes are as `headrace kafka consume --json` has them; `result` as Python writes it.
    """
    (outcome,) = result.outcomes
    return json.dumps(
        {
            "topic": outcome.topic,
            "partition": outcome.partition,
            "offset": outcome.offset,
            "failure": outcome.failure,
            "acked": outcome.is_acked,
            "seconds": result.handler_seconds,
            "result": None if outcome.result is None else repr(outcome.result),
            "produced": [_message_json(message) for message in result.produced],
            "logs": [asdict(line) for line in result.logs],
        }
    )


def _message_json(message: Message) -> dict[str, object]:
    headers = [[name, readable(value)] for name, value in message.headers]
    bytes_of = {"key": readable(message.key), "value": readable(message.value), "headers": headers}
    return {**message._asdict(), **bytes_of}
