"""Another user of this machine, who may run what everybody may."""

import os
import shutil
import subprocess
import sys

import pytest

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
