"""A plugin of pytest: where the time of a run goes, as a table in Markdown at its end. `make test-times`.

Of each folder: its tests; seconds from start to end, of all test processes together; seconds of a processor,
with those of the processes that a test has waited for; and what it has started.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from forked import spent_seconds

FOLDER = "HEADRACE_TEST_TIMES"
DEPTH = 2
"""Folders below tests/ that have a row of their own."""

_started: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """In each process; the first one makes the folder that all write to."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="headrace-times-")
        config.add_cleanup(_print_table)
    sys.addaudithook(_note_start)


def _note_start(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        words = arguments[1]
        _started.append(_kind([os.fsdecode(it) for it in words] if isinstance(words, list | tuple) else []))


def _kind(words: list[str]) -> str:
    """What such a command starts."""
    line = " ".join(words)
    kinds = {
        "headrace.runtime.worker": "workers",
        "fence_main": "fences",
        "headrace run": "processors",
        "SparkSubmit": "Sparks",
        "kafka.Kafka": "brokers",
    }
    return next((kind for part, kind in kinds.items() if part in line), "others")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _started.clear()
    began, used = time.monotonic(), _processor_seconds()
    done = yield
    row = {
        "test": item.nodeid,
        "seconds": time.monotonic() - began,
        "processor": _processor_seconds() - used,
        "started": Counter(_started),
    }
    with (Path(os.environ[FOLDER]) / f"{os.getpid()}").open("a") as file:
        file.write(json.dumps(row) + "\n")
    return done


def _processor_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(it.ru_utime + it.ru_stime for it in used) + spent_seconds()


def _rows() -> Iterator[dict[str, Any]]:
    for path in Path(os.environ[FOLDER]).iterdir():
        yield from map(json.loads, path.read_text().splitlines())


def _print_table() -> None:
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for row in _rows():
        folders = row["test"].partition("::")[0].split("/")[1:-1]
        for name in ("/".join(folders[:DEPTH]), "all"):
            totals[name] += Counter(
                tests=1, seconds=row["seconds"], processor=row["processor"], **row["started"]
            )
    print("\n| folder | tests | seconds | of a processor | starts |\n|---|--:|--:|--:|---|")  # noqa: T201
    for name, it in sorted(totals.items(), key=lambda pair: -pair[1]["seconds"]):
        starts = ", ".join(
            f"{it[kind]} {kind}" for kind in it if kind not in {"tests", "seconds", "processor"}
        )
        print(f"| {name} | {it['tests']} | {it['seconds']:.0f} | {it['processor']:.0f} | {starts} |")  # noqa: T201
