"""Which product the tests are of: in a copy of the repository, that of the copy."""

import subprocess
import sys
from pathlib import Path

from root import ROOT

import headrace

_WHERE = "import headrace, headrace.runtime.worker as it; print(headrace.__file__, it.__file__, sep=chr(10))"


def test_it_is_the_one_beside_them_here_and_in_what_they_start(tmp_path: Path) -> None:
    assert headrace.__file__ is not None
    assert Path(headrace.__file__).is_relative_to(ROOT)
    said = subprocess.run(
        [sys.executable, "-P", "-c", _WHERE], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert all(Path(it).resolve().is_relative_to(ROOT) for it in said.splitlines())
