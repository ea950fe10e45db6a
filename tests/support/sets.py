"""Which set a test is in, and the order of a run. CONTRIBUTING.md says what each set is for.

full: it is marked so, or it is none of the cases that `full_but` names. quick: by what it and its fixtures
call, it starts no process and asks no server. Where it does all the same, it fails, and says so.
"""

import functools
import inspect
import sys
from collections.abc import Generator, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_TESTS = f"{Path(__file__).parents[1]}/"
_SERVERS = {"broker", "guarded", "v3io", "spark", "databases", "own_server"}
_STARTERS = {
    *("subprocess", "multiprocessing", "WorkerProcess", "RunningTrigger", "Processor", "IsolatedDecoder"),
    *("EmbeddedKafka", "EmbeddedV3io", "SparkServer", "find_java", "kafka_jars"),
}
"""Names whose use is a way to a process. Where none is in sight, the mark `processes` says so."""
_MADE_FOR_A_FILE = ('scope="module"', "SparkSession")
"""What a file says whose fixtures are made once for all of its tests."""
_STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"}
_is_quick = False


def _refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if _is_quick and event in _STARTS:
        raise RuntimeError(f"a quick test starts a process: {arguments[:2]}; see tests/support/sets.py")


sys.addaudithook(_refuse_processes)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks, and first what takes long: in the end all processes are busy with short ones."""
    for item in items:
        assert isinstance(item, pytest.Function)
        fixtures = [it for found in item._fixtureinfo.name2fixturedefs.values() for it in found]
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        names = {*item.fixturenames, *map(str, parameters.values())}
        if "spark" in item.fixturenames and "spark" not in parameters:
            item.add_marker("spark")
        starts = any(map(_starts, (item.function, *(it.func for it in fixtures))))
        _mark_cases(item)
        is_marked = any(map(item.get_closest_marker, ("full", "processes")))
        if not (starts or is_marked or names & {*_SERVERS, "postgresql"}):
            item.add_marker("quick")
    items.sort(key=lambda item: item.get_closest_marker("quick") is not None)


class _Scheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each test to whoever is free, but a file's together where they share a fixture.

    `--dist loadgroup` is for that, but groups nothing with pytest 9.2 (pytest-xdist issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return path if _shares_fixtures(path) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Scheduler:
    return _Scheduler(config, log)


@functools.cache
def _shares_fixtures(path: str) -> bool:
    text = (Path(_TESTS).parent / path).read_text()
    return any(it in text for it in _MADE_FOR_A_FILE)


def _mark_cases(item: pytest.Function) -> None:
    """full, where it is another case of its test than those which stand for all of them."""
    for mark in item.iter_markers("full_but"):
        if not any(fnmatchcase(item.callspec.id, one) for one in mark.args):
            item.add_marker("full")


@functools.cache
def _starts(called: Any) -> bool:
    """Whether it, or something in tests/ that it calls at any depth, uses one of the names."""
    return not _STARTERS.isdisjoint(_names_below(called, {}))


def _names_below(called: Any, seen: dict[int, Any]) -> Iterator[str]:
    if id(called) in seen:
        return
    seen[id(called)] = called
    for part in _functions(called):
        for name in _names(part.__code__):
            yield name
            if name in part.__globals__:
                yield from _names_below(part.__globals__[name], seen)


def _functions(called: Any) -> Iterator[FunctionType]:
    """Those of tests/ of which it is made."""
    parts = [called]
    if inspect.isclass(called) and _is_ours(getattr(sys.modules.get(called.__module__), "__file__", None)):
        parts = [getattr(it, "fget", it) for base in called.__mro__ for it in [*vars(base).values()]]
    for part in map(inspect.unwrap, filter(callable, parts)):
        if isinstance(part, FunctionType) and _is_ours(part.__code__.co_filename):
            yield part


def _is_ours(path: str | None) -> bool:
    return (path or "").startswith(_TESTS)


@functools.cache
def _names(code: CodeType) -> frozenset[str]:
    inner = (_names(it) for it in code.co_consts if isinstance(it, CodeType))
    return frozenset(code.co_names).union(*inner)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Nothing of a quick test starts a process."""
    global _is_quick  # noqa: PLW0603  # an audit hook has no other way to know
    _is_quick = item.get_closest_marker("quick") is not None
    try:
        return (yield)
    finally:
        _is_quick = False
