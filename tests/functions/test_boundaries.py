"""Imports of ready-made functions, by whom and of what: functions/README.md says it, this proves it."""

import grimp
import pytest

FUNCTIONS = ("long_tasks", "model_metrics", "run_tracking", "spark_pipeline")


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("headrace")


def imported_by(imports: grimp.ImportGraph, package: str) -> set[str]:
    modules = {package, *imports.find_descendants(package)}
    return {found for one in modules for found in imports.find_modules_directly_imported_by(one)}


def test_the_core_imports_nothing_of_functions(imports: grimp.ImportGraph) -> None:
    own = {"headrace.functions", *imports.find_descendants("headrace.functions")}
    core = imports.modules - own
    importers = {one for one in core if imports.find_modules_directly_imported_by(one) & own}
    # Examples and what `headrace new` makes are users' code.
    assert {
        one for one in importers if not one.startswith(("headrace.examples.", "headrace.specs."))
    } == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_imports_no_other_function(imports: grimp.ImportGraph, name: str) -> None:
    others = tuple(f"headrace.functions.{other}." for other in FUNCTIONS if other != name)
    assert [one for one in imported_by(imports, f"headrace.functions.{name}") if one.startswith(others)] == []


@pytest.mark.parametrize("name", ["database", "events", "extras", "retry", "spark", "tables"])
def test_what_functions_share_imports_none_of_them(imports: grimp.ImportGraph, name: str) -> None:
    functions = tuple(f"headrace.functions.{one}" for one in FUNCTIONS)
    assert [it for it in imported_by(imports, f"headrace.functions.{name}") if it.startswith(functions)] == []
