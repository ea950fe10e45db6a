"""Another user of this machine, who may run what everybody may."""

import os
import shutil
import subprocess
import sys
import sysconfig

import pytest
from root import ROOT

_NOBODY = 65534


def _interpreter() -> str | None:
    """One that everybody can run: this one may lie in somebody's home."""
    for found in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        trial = [found or "", "-I", "-S", "-c", "import urllib.request"]
        try:
            if subprocess.run(trial, user=_NOBODY, check=False, cwd="/").returncode == 0:
                return found
        except OSError:
            continue
    return None


INTERPRETER = _interpreter() if os.geteuid() == 0 else None
needs_neighbour = pytest.mark.skipif(
    INTERPRETER is None, reason="only root can start processes of another user, who needs a Python"
)


def as_neighbour(code: str, *arguments: object) -> "subprocess.Popen[str]":
    """Python code that runs as somebody else, with nothing of ours."""
    assert INTERPRETER is not None
    return subprocess.Popen(
        [INTERPRETER, "-I", "-S", "-c", code, *map(str, arguments)],
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


def _workers_python() -> tuple[str, str] | None:
    """A Python that has Headrace when the neighbour runs it, and the PYTHONPATH that it takes."""
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


_WORKERS = _workers_python() if os.geteuid() == 0 else None
needs_worker_user = pytest.mark.skipif(
    _WORKERS is None, reason="only root can run workers as another user, who needs a Python with Headrace"
)
NEIGHBOUR = "nobody"
_PYTHON, _PATH = _WORKERS or ("", "")
NEIGHBOURS_PROGRAM = ("env", f"PYTHONPATH={_PATH}", _PYTHON, "-P", "-m", "headrace")
"""Headrace, from where the neighbour can run it too."""
