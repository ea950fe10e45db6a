"""Which set a test is in, and the order of a run. CONTRIBUTING.md says what each set is for.

quick: it starts no process and asks no server; it fails where it tries to. full: it is marked so.
"""

import os
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import broker
import command
import lone_worker
import pytest
import replica
import running_trigger
import worker_bench

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.spark.server import SparkServer
from headrace.runtime.embedded.v3io.server import EmbeddedV3io

# Whose fixtures have these, or whose modules import these, starts processes or asks servers.
_SERVERS = {"broker", "guarded", "narrow_broker", "v3io", "spark", "databases", "own_server"}
_STARTERS: tuple[object, ...] = (
    subprocess,
    broker.embedded,
    command.run,
    lone_worker.lone_worker,
    replica.replica,
    running_trigger.running,
    worker_bench.bench,
    EmbeddedKafka,
    EmbeddedV3io,
    SparkServer,
)
_STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"}
_is_quick = False


def _refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if _is_quick and event in _STARTS:
        raise RuntimeError(
            f"a quick test starts a process: {arguments[:2]}; tests/support/sets.py tells them apart"
        )


sys.addaudithook(_refuse_processes)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks, and first what takes long: in the end all processes are busy with short ones."""
    modules: dict[object, bool] = {}
    for item in items:
        assert isinstance(item, pytest.Function)
        module = item.module
        if module not in modules:
            names = vars(module).values()
            modules[module] = any(it is starter for it in names for starter in _STARTERS)
        fixtures = set(item.fixturenames)
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if "spark" in fixtures and "spark" not in parameters:
            item.add_marker("spark")
        asks_servers = fixtures & _SERVERS or {"postgresql", "spark"} & {*map(str, parameters.values())}
        if not (modules[module] or asks_servers or item.get_closest_marker("full")):
            item.add_marker("quick")
        if any(it.scope == "module" for defs in item._fixtureinfo.name2fixturedefs.values() for it in defs):
            item.add_marker(pytest.mark.xdist_group(module.__name__))  # its fixtures are made once
    items.sort(key=lambda item: item.get_closest_marker("quick") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Nothing of a quick test starts a process."""
    global _is_quick  # noqa: PLW0603  # an audit hook has no other way to know
    _is_quick = item.get_closest_marker("quick") is not None
    try:
        return (yield)
    finally:
        _is_quick = False
