"""The matrix of Spark and pandas: what it runs is there, and its tables say what pytest has said."""

import pytest
from environments import without_chosen
from matrix import CELL, PAIR, _is_as_expected
from outcomes import Outcomes, read_outcomes, table_of_cells, table_of_pairs
from root import ROOT

from headrace.runtime.spark.versions import fault_of_server

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.a.test_b" name="test_c[1]"/>
<testcase classname="tests.a.test_b" name="test_d"><skipped message="no"/></testcase>
<testcase classname="tests.a.test_e" name="test_f"><failure message="boo">    def test_f():
E   ValueError: the first

The above exception was the direct cause
E           headrace.SparkError: the second, | which counts
tests/a.py:1: SparkError</failure></testcase>
<testcase classname="tests.a.test_e" name="test_g"><error message="failed on setup">no line</error></testcase>
</testsuite></testsuites>"""
GROUPS = {"first": ["tests/a/test_b.py"], "second": ["tests/a/test_e.py::test_f"]}


def test_outcomes_are_counted_by_group_and_the_last_error_of_each_is_a_line() -> None:
    outcomes = read_outcomes(JUNIT, GROUPS)
    assert [outcomes.shown(group) for group in GROUPS] == ["1, 1 skipped", "0, 1 failed"]
    assert outcomes.faults == [
        "test_f: headrace.SparkError: the second, | which counts",
        "test_g: failed on setup",
    ]
    assert not outcomes.is_passed


def test_nothing_that_ran_is_not_passed() -> None:
    assert not read_outcomes("<testsuites/>", GROUPS).is_passed


def test_tables_have_a_row_for_each_cell_and_a_line_for_each_fault() -> None:
    good, bad = (
        Outcomes({"first": {"passed": 2}}, []),
        Outcomes({"first": {"failed": 2}}, ["t: E: no", "u: E: no"]),
    )
    assert table_of_cells(["first"], {"4.0.5, 2": good, "4.0.5, 3": bad}).splitlines() == [
        "| Spark, pandas | first |",
        "|---|---|",
        "| 4.0.5, 2 | 2 |",
        "| 4.0.5, 3 | 0, 2 failed |",
        "",
        "- 4.0.5, 3: t: E: no",
        "- 4.0.5, 3: u: E: no",
    ]
    pairs = {("4.0.5", "4.3.0"): good, ("4.3.0", "4.0.5"): bad}
    assert table_of_pairs(["4.0.5", "4.3.0"], pairs).splitlines() == [
        "| client | server 4.0.5 | server 4.3.0 |",
        "|---|---|---|",
        "| 4.0.5 | a cell | works |",
        "| 4.3.0 | line 1 | a cell |",
        "",
        "1. 4.3.0 on 4.0.5: E: no",
    ]


def test_a_pair_works_or_says_what_is_known_of_it_and_nothing_else() -> None:
    good, bad = Outcomes({"all": {"passed": 2}}, []), Outcomes({"all": {"failed": 1}}, ["t: E: no"])
    known = Outcomes({"all": {"failed": 1}}, [f"t: E: {fault_of_server('4.3.0', '4.0.5')}"])
    assert _is_as_expected("4.0.5", "4.3.0", good)
    assert not _is_as_expected("4.0.5", "4.3.0", bad)
    assert _is_as_expected("4.3.0", "4.0.5", known)
    assert not _is_as_expected("4.3.0", "4.0.5", bad)
    assert not _is_as_expected("4.3.0", "4.0.5", good)


@pytest.mark.parametrize(
    "node", [node for groups in (CELL, PAIR) for nodes in groups.values() for node in nodes]
)
def test_what_is_run_is_there(node: str) -> None:
    file, _, name = node.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text() if name else (ROOT / file).exists()


def test_an_environment_has_all_that_is_locked_but_what_it_chooses() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    rest = without_chosen(lock)
    names = {line.partition("==")[0] for line in lock.splitlines() if not line.startswith((" ", "#"))}
    left = {line.partition("==")[0] for line in rest.splitlines() if not line.startswith((" ", "#"))}
    assert names - left == {"pyspark", "pandas"}
    assert lock.count("--hash") > rest.count("--hash") > 100
