"""Missing extras of ready-made functions: the line that names one, and its place in the README."""

import importlib
import re
import sys

import pytest
from root import ROOT

from headrace.functions.extras import MissingExtraError, require_extra

EXTRAS = {
    "long_tasks": ("tasks", "google.protobuf"),
    "model_metrics": ("metrics", "sqlalchemy"),
    "run_tracking": ("tracking", "msgspec"),
    "tables": ("sql", "sqlalchemy"),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_what_is_imported_without_its_extra_names_it_in_one_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra, library = EXTRAS[name]
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"headrace.functions.{name}", raising=False)
    with pytest.raises(MissingExtraError) as raised:
        importlib.import_module(f"headrace.functions.{name}")
    file = name if name != "tables" else "tables.py"
    assert str(raised.value) == f"functions/{file} needs {library}: pip install 'headrace[{extra}]'"


def test_a_library_of_a_package_that_is_missing_too_is_missing() -> None:
    with pytest.raises(MissingExtraError, match=r"needs no_such_package\.library: pip install"):
        require_extra("it", "extra", "no_such_package.library")


def test_what_is_run_by_its_name_ends_with_the_line_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["-m"])
    with pytest.raises(SystemExit, match=r"^it needs no_such_library: pip install 'headrace\[extra\]'$"):
        require_extra("it", "extra", "no_such_library")


@pytest.mark.parametrize("name", ["long_tasks", "model_metrics", "run_tracking", "spark", "spark_pipeline"])
def test_each_readme_names_the_extra(name: str) -> None:
    extra = EXTRAS[name][0] if name in EXTRAS else "spark"
    readme = (ROOT / "functions" / name / "README.md").read_text()
    assert re.search(rf"pip install 'headrace\[(?:[a-z]+,)*{extra}\b", readme)
