"""The mutants: each is still the fault that it was, its test is there, and the page has all of them."""

import ast
import re

import pytest
from mutant import PROMISES, Mutant
from mutants import AREAS, MUTANTS, PRODUCT, table
from root import ROOT

PAGE = ROOT / "docs" / "design" / "mutants.md"
LINES = [f"L{number}" for number in range(1, 10)]
EACH = pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)


def names_in(path: str) -> set[str]:
    """Functions that are in `make test`, and classes that hypothesis has made."""
    names = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if "pytest.mark.full" not in map(ast.unparse, node.decorator_list):
                names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


@EACH
def test_what_it_replaces_is_there_once_and_what_comes_of_it_is_code(mutant: Mutant) -> None:
    for path, text in mutant.texts(ROOT).items():
        ast.parse(text)
        assert text != path.read_text()


@EACH
def test_its_test_is_there(mutant: Mutant) -> None:
    found = re.fullmatch(r"(\S+\.py)::(test_\w+)(?:\[(\w+)\])?", mutant.test)
    assert found
    path, name, parameter = found.groups()
    assert name in names_in(path)
    assert parameter is None or re.search(rf"\b{parameter}\b", (ROOT / path).read_text())


def test_the_test_of_the_product_is_there() -> None:
    assert names_in(PRODUCT)


def test_each_breaks_a_promise_that_is_made_somewhere() -> None:
    design = (ROOT / "DESIGN.md").read_text()
    assert all(re.search(rf"^\| {line} \| ", design, re.MULTILINE) for line in LINES)
    assert {mutant.promise for mutant in MUTANTS.values()} == {*LINES, *PROMISES}
    for page, words in PROMISES.values():
        assert words in " ".join((ROOT / page).read_text().split()), page


def test_there_are_some_of_each_kind() -> None:
    promised = [mutant.promise for mutant in MUTANTS.values()]
    assert min(map(promised.count, LINES)) >= 2
    assert min(map(len, AREAS)) >= 3
    assert sum(map(len, AREAS)) == len(MUTANTS), "no two have one name"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == table(MUTANTS.values()), "make generate"
