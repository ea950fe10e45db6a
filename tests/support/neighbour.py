"""Another user of this machine, who may run what everybody may."""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig

import pytest
from root import ROOT

_NOBODY = 65534


@functools.cache
def interpreter() -> str | None:
    """One that all can run: ours may lie in somebody's home. None where we may start no other user's."""
    if os.geteuid():
        return None
    for found in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        trial = [found or "", "-I", "-S", "-c", "import urllib.request"]
        try:
            if subprocess.run(trial, user=_NOBODY, check=False, cwd="/").returncode == 0:
                return found
        except OSError:
            continue
    return None


needs_neighbour = pytest.mark.usefixtures("neighbour")


def as_neighbour(code: str, *arguments: object) -> "subprocess.Popen[str]":
    """Python code that runs as somebody else, with nothing of ours."""
    found = interpreter()
    assert found is not None
    return subprocess.Popen(
        [found, "-I", "-S", "-c", code, *map(str, arguments)],
        user=_NOBODY,
        group=_NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said_by_neighbour(code: str, *arguments: object) -> str:
    """All that it prints, at its end."""
    return as_neighbour(code, *arguments).communicate(timeout=120)[0].strip()


@functools.cache
def workers_python() -> tuple[str, str] | None:
    """A Python that has Headrace when the neighbour runs it, and the PYTHONPATH that it takes."""
    if os.geteuid():
        return None
    packages = f"{sysconfig.get_path('purelib')}:{ROOT}"
    same = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")
    for found, path in ((sys.executable, ""), (same or "", packages)):
        trial = [found, "-P", "-c", "import headrace.runtime.worker.loop, headrace.runtime.cli.run"]
        environment = {**os.environ, "PYTHONPATH": path}
        try:
            if subprocess.run(trial, user=_NOBODY, env=environment, check=False, cwd="/").returncode == 0:
                return found, path
        except OSError:
            continue
    return None


needs_worker_user = pytest.mark.usefixtures("worker_user")
NEIGHBOUR = "nobody"


def neighbours_program() -> tuple[str, ...]:
    """Headrace, from where the neighbour can run it too."""
    found = workers_python()
    assert found is not None
    python, path = found
    return ("env", f"PYTHONPATH={path}", python, "-P", "-m", "headrace")
