"""The log never holds up the processor."""

import json
import os
import subprocess
import sys

from headrace.runtime.log import QUEUED_LINES

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
