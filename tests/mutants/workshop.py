"""A copy of the repository, in which a mutant at a time takes the place of a file, and pytest runs."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from mutant import ROOT, Mutant

_SECONDS = 60
"""For one test: what stands still is caught by this."""
_ALONE = ("-p", "alone", "--hypothesis-profile=alone", "--noconftest")
_FAILED = re.compile(r"(?<!x)\b[0-9]+ failed\b")
_BROKEN = re.compile(r"\b[0-9]+ errors?\b")
_NO_CODE = re.compile(r"^E +(?:ImportError|ModuleNotFoundError|NameError|SyntaxError)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of pytest has ended."""

    code: int
    text: str
    seconds: float

    @property
    def last_line(self) -> str:
        """Pytest's summary."""
        return self.text.rstrip().rpartition("\n")[2]

    @property
    def is_passed(self) -> bool:
        """All of them."""
        return self.code == 0

    @property
    def is_caught(self) -> bool:
        """A test has failed, and nothing else was wrong: no import, no name, no fixture."""
        has_failed = self.code == 1 and _FAILED.search(self.last_line) is not None
        return has_failed and not (_BROKEN.search(self.last_line) or _NO_CODE.search(self.text))


class Workshop:
    """What the repository has, or would take, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # A module is compiled anew where its file has another time, in whole seconds, or another size.
        self._times = count(int(time.time()) + 1)
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in listed.splitlines():
            source, target = ROOT / name, folder / name
            if source.is_symlink() or source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """With this fault. ValueError as Mutant.texts says."""
        texts = mutant.texts(self._folder)
        originals = {path: (path.read_text(), path.stat().st_mtime_ns) for path in texts}
        moment_ns = next(self._times) * 1_000_000_000
        try:
            for path, text in texts.items():
                _write(path, text, moment_ns)
            yield
        finally:
            for path, (text, original_ns) in originals.items():
                _write(path, text, original_ns)

    def run(self, tests: Sequence[str], *, is_quick: bool) -> Outcome:
        """These, up to the first that fails, on the product of the copy."""
        options = ["-x", "--hypothesis-seed=0", f"--timeout={_SECONDS}", *(_ALONE if is_quick else ())]
        path = os.pathsep.join((str(self._folder), str(self._folder / "tests" / "mutants")))
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", *options, *tests],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, time.monotonic() - began)


def _write(path: Path, text: str, moment_ns: int) -> None:
    path.write_text(text)
    os.utime(path, ns=(moment_ns, moment_ns))
