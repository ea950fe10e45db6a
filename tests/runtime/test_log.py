"""The log never holds up the processor."""

import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from headrace.runtime.log import QUEUED_BYTES, QUEUED_LINES, StderrHandler
from headrace.runtime.log_lines import ConsoleFormatter, JsonFormatter, context_bound_to

SCRIPT = """
import logging, sys, time
from headrace.runtime.log import QUEUED_LINES, set_up_logging
set_up_logging("info", sys.argv[1], "r")
log = logging.getLogger("handler")
for number in range(QUEUED_LINES + 5000):
    log.info("line %d %s", number, "x" * 100, extra={"bound": {"partition": "t/3"}})
print("done", flush=True)
sys.stdin.read(1)
log.info("the last")
"""


def test_a_log_that_nobody_reads_is_dropped_and_counted_and_blocks_nobody() -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "console"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writing,
    )
    os.close(writing)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"done\n"  # though its log is full
    with os.fdopen(reading) as log:
        first = log.readline()
        for _ in range(QUEUED_LINES):
            log.readline()  # now there is room again
        process.stdin.write(b"\n")
        process.stdin.close()
        rest = log.read()
    assert process.wait(120) == 0
    process.stdout.close()
    assert first.split(" ", 1)[1].startswith("r INFO    handler: line 0 xxx")
    assert first.endswith("  partition=t/3\n")
    assert "log lines were dropped" in rest
    assert "handler: the last" in rest


def test_json_lines_carry_what_is_bound() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, "json"], input=b"\n", capture_output=True, check=True
    )
    line = json.loads(result.stderr.splitlines()[0])
    assert (line["level"], line["logger"], line["replica"], line["partition"]) == (
        "info",
        "handler",
        "r",
        "t/3",
    )


def _json(name: str, given: object = None, **bound: object) -> object:
    record = logging.LogRecord(name, logging.INFO, __file__, 1, "said", None, None)
    record.bound = bound
    record.given = given

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(JsonFormatter("").format(record), parse_constant=refuse)


def test_a_json_line_is_json_whatever_is_bound() -> None:
    given = {"rate": float("nan"), "rates": [float("-inf"), 1.5], "thing": object}
    line = _json("handler", given)
    assert isinstance(line, dict)
    assert (line["with"]["rate"], line["with"]["rates"]) == ("NaN", ["-Infinity", 1.5])


def test_a_json_line_says_when_by_iso_8601() -> None:
    line = _json("handler")
    assert isinstance(line, dict)
    age = datetime.now(UTC) - datetime.fromisoformat(line["time"])
    assert timedelta() <= age < timedelta(hours=1)


def test_what_a_handler_says_overwrites_nothing_of_the_runtimes() -> None:
    line = _json("handler", {"worker": "mine", "message": "mine", "time": "now"}, worker=3)
    assert isinstance(line, dict)
    assert (line["worker"], line["message"]) == (3, "said")
    assert line["with"] == {"worker": "mine", "message": "mine", "time": "now"}
    record = line_of("said", worker=3)
    record.given = {"worker": "mine"}
    assert ConsoleFormatter("").format(record).endswith("said  worker=3  |  worker=mine")


def test_a_failure_has_fields_in_json_and_for_people_a_traceback_below_it() -> None:
    record = line_of("t/0 offset 3 failed: ValueError: no")
    fields = {"topic": "t", "partition": 0, "offset": 3, "attempt": 2, "exception": "ValueError"}
    record.fields = fields
    record.error = error = (
        "Traceback (most recent call last):\nValueError: no\n12:00:00.000 INFO    all is well"
    )
    line = json.loads(JsonFormatter("").format(record))
    assert line.items() >= fields.items()
    assert line["error"] == error
    first, *rest = ConsoleFormatter("").format(record).splitlines()
    assert first.endswith("t/0 offset 3 failed: ValueError: no")
    assert rest[:2] == ["    Traceback (most recent call last):", "    ValueError: no"]
    assert rest[2].startswith("    ")


@pytest.mark.parametrize(("env", "has_colours"), [({"TERM": "xterm"}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_for_terminals(env: dict[str, str], has_colours: bool) -> None:
    reading, writing = os.openpty()
    script = (
        "import logging; from headrace.runtime.log import set_up_logging; set_up_logging('info', 'console');"
    )
    code = script + "logging.error('red'); logging.shutdown()"
    subprocess.run([sys.executable, "-c", code], stderr=writing, env={**os.environ, **env}, check=True)
    os.close(writing)
    said = os.read(reading, 1 << 16).decode()
    os.close(reading)
    assert ("\x1b[31mERROR" in said) is has_colours
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "ERROR   red" in piped.stderr
    assert "\x1b" not in piped.stderr


def test_the_client_is_heard_at_trace_alone() -> None:
    script = (
        "import logging, sys; from headrace.runtime.log import set_up_logging; set_up_logging(*sys.argv[1:]);"
    )
    code = script + "[logging.getLogger(name).debug(name) for name in ('aiokafka.conn', 'asyncio', 'ours')]"
    for level, heard in (("debug", {"ours"}), ("trace", {"aiokafka.conn", "asyncio", "ours"})):
        command = [sys.executable, "-c", code, level, "json"]
        said = subprocess.run(command, capture_output=True, check=True, text=True).stderr
        assert {json.loads(line)["message"] for line in said.splitlines()} == heard


def test_lines_of_handlers_name_their_trigger() -> None:
    context = context_bound_to({"trigger": "orders"}, function="f")
    handlers, others = context.run(_json, "handler", offset=3), context.run(_json, "headrace")
    assert isinstance(handlers, dict)
    assert isinstance(others, dict)
    assert (handlers["trigger"], handlers["function"], handlers["offset"]) == ("orders", "f", 3)
    assert ("trigger" in others, others["function"]) == (False, "f")


def line_of(message: str, **bound: object) -> logging.LogRecord:
    record = logging.LogRecord("headrace", logging.INFO, __file__, 1, message, (), None)
    record.bound = bound
    return record


def test_no_text_of_a_record_is_obeyed_by_a_terminal_or_passes_for_a_line() -> None:
    hostile = "a\x1b[2Jb\x9bc\u202ed\re\n12:00:00.000 INFO    all is well"
    for formatter in (ConsoleFormatter(""), JsonFormatter("")):
        shown = formatter.format(line_of(hostile, key=hostile))
        assert not any(sign in shown for sign in "\x1b\x9b\u202e\r")
        assert not any(line.startswith("12:00:00.000 INFO    all") for line in shown.splitlines()[1:])


def test_what_waits_for_a_reader_is_bounded_in_bytes() -> None:
    handler = StderrHandler()
    handler._lines.put_nowait(None)
    handler._writer.join(60)  # nobody reads from now on
    handler.setFormatter(ConsoleFormatter(""))
    for _ in range(40):
        handler.emit(line_of("x" * (1 << 20)))
    assert handler._lines.qsize() == QUEUED_BYTES // (1 << 20) - 1
    assert handler._bytes <= QUEUED_BYTES
    assert handler._dropped > 0
