"""The check of a function's remote Spark Connect server, by a process that asks it (probe.py)."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.runtime.processes import describe_exit
from headrace.runtime.spark.link import Endpoint, SparkLink
from headrace.runtime.spark.versions import fault_of_server

_PROBE = "headrace.runtime.spark.probe"
_SECONDS = 15.0  # for one answer
_ALL_SECONDS = 180.0  # also for the probe to import pyspark


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """Clauses about spec.spark: what answers, empty where nothing does; and what doesn't work with it."""

    shown: str
    problems: Sequence[str]


def check_remote(link: SparkLink) -> ServerAnswer:
    """Ask the server at `link` for its version, and have it run a function of Python.

    Blocks, for three minutes at most: each answer is waited for 15 s, that of a function of Python 60 s.
    """
    found = _ask(link)
    problems = [found["problem"]] if "problem" in found else []
    if "server" not in found:
        return ServerAnswer("", problems)
    if fault := fault_of_server(found["client"], found["server"]):
        problems.append(fault)
    endpoint = Endpoint.parse(link.session_url)
    shown = f"Spark {found['server']} answers PySpark {found['client']} at {endpoint.host}:{endpoint.port}"
    if "python" in found:
        shown += f"; functions of Python run there with {found['python']}"
    return ServerAnswer(shown, problems)


def _ask(link: SparkLink) -> Mapping[str, str]:
    """Return all that the probe has found out, by name."""
    # The address has a token in it: command lines are seen by everybody.
    given = json.dumps({"url": link.session_url, "conf": dict(link.conf), "seconds": _SECONDS})
    command = [sys.executable, "-P", "-m", _PROBE]
    try:
        done = subprocess.run(
            command,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_ALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problem": "could not be checked: it took too long; try it again"}
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        found |= json.loads(line)
    if not found.keys() & {"python", "problem"}:
        found["problem"] = f"could not be checked: Spark's client ended with {describe_exit(done.returncode)}"
    return found
