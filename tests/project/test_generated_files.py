"""What is generated from declarations is as the declarations are now."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import run

ROOT = Path(__file__).parents[2]
_RECIPE = re.compile(r"^\t@\$\(call write,(?P<file>[^,]+),(?P<command>.+)\)$", re.MULTILINE)
GENERATED = {
    found["file"]: found["command"].split() for found in _RECIPE.finditer((ROOT / "Makefile").read_text())
}


def test_the_recipe_is_found() -> None:
    assert {
        "specs/function.schema.json",
        "docs/reference/configuration.md",
        "docs/operate/metrics.md",
    } <= set(GENERATED)


@pytest.mark.parametrize("file", GENERATED)
def test_a_generated_file_is_up_to_date(file: str) -> None:
    assert (ROOT / file).read_text() == run(*GENERATED[file]).stdout, "make generate"


def test_the_picture_of_the_layers_is_that_of_the_imports() -> None:
    command = [sys.executable, "-P", str(ROOT / "tools/layers.py")]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs/design/layers.svg").read_text() == drawn, "make generate"
