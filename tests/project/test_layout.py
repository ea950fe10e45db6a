"""The tree is what the architecture says, and what the packaging lists."""

import ast
import configparser
import re
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from root import ROOT, tracked_files

SOURCES = ("runtime", "triggers", "functions", "specs", "examples")
CODE = ("headrace", "runtime", "triggers", "functions")
_MOST_FILES = 25
_MOST_LINES = 400
_MOST_METHODS = 25
_MOST_PARAMETERS = 8
# One argument for each option of `headrace run`, and for each setting that a trial knows.
_ONE_PER_OPTION = (("runtime/cli/", "run"), ("runtime/testing/run_handler.py", "run_handler"))
# These re-export what users import.
_USERS_IMPORT_FROM = ("headrace/__init__.py", "functions/spark/__init__.py")
_NAME_THEIR_EXTRA = tuple(
    f"functions/{name}/__init__.py" for name in ("long_tasks", "model_metrics", "run_tracking")
)
_MADE_BY_PROTOC = "_pb2.py"
# With one of these in front, a sentence can't be understood without the code around it.
_POINTING = re.compile(
    r"(All|And|As|At|By|From|Here|In|Its?|None|Nothing|Of|On|Once|One|So|That|Their|There|These|They|This|Those|To"
    r"|What|Where|Which|Who|With)\b"
)


@pytest.mark.parametrize("name", SOURCES)
def test_the_front_door_links_to_the_real_folders(name: str) -> None:
    link = ROOT / "headrace" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name


def test_every_package_is_listed_once_and_found_in_its_folder() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    options = config["options"]
    found = {"headrace"} | {
        f"headrace.{'.'.join(init.parent.relative_to(ROOT).parts)}"
        for source in SOURCES
        for init in (ROOT / source).rglob("__init__.py")
    }
    assert options["packages"].split() == sorted(found)
    mapping = dict(line.split(" = ") for line in options["package_dir"].strip().splitlines())
    assert mapping == {"headrace": "headrace"} | {f"headrace.{source}": source for source in SOURCES}


def test_the_pythons_of_the_metadata_are_those_that_ci_looks_for_and_pages_name() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    minors = re.findall(r"Python :: 3\.(\d+)", config["metadata"]["classifiers"])
    assert re.findall(r"for minor in (.+); do", (ROOT / ".ci/pythons").read_text()) == [" ".join(minors)]
    for page in ("README.md", "SECURITY.md"):
        assert f"Python 3.{minors[0]} to 3.{minors[-1]}" in (ROOT / page).read_text()
    assert f"3\\.{minors[-1]}" in (ROOT / ".ci/run").read_text()


def test_designs_table_of_layers_says_of_every_package_what_its_docstring_says() -> None:
    design = (ROOT / "DESIGN.md").read_text()
    shown = dict(re.findall(r"^\| \d+ \| `((?:runtime|triggers)/.+)/` \| (.+) \|$", design, re.MULTILINE))
    packages = (init for top in ("runtime", "triggers") for init in (ROOT / top).rglob("__init__.py"))
    said = {
        str(init.parent.relative_to(ROOT)): ast.get_docstring(ast.parse(init.read_text()))
        for init in packages
    }
    assert shown == {package: text.splitlines()[0] for package, text in said.items() if text}


def layers() -> dict[str, int]:
    """Packages and files below `headrace.` with the number of their layer, 0 at the bottom."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    rows = config["importlinter:contract:layers"]["layers"].split("\n")
    return {name: layer for layer, row in enumerate(reversed(rows)) for name in row.split(" : ")}


def test_every_part_of_runtime_has_its_layer() -> None:
    parts = {path.split("/")[1].removesuffix(".py") for path, _ in modules() if path.startswith("runtime/")}
    named = {name.removeprefix("runtime.") for name in layers() if name.startswith("runtime.")}
    assert named == parts - {"__init__"}


def test_designs_layers_are_those_of_the_import_contract() -> None:
    layer_of = layers()
    shown = re.findall(r"^\| (\d+) \| `(.+)/` \|", (ROOT / "DESIGN.md").read_text(), re.MULTILINE)
    packages = {package: int(layer) for layer, package in shown}
    parts = {package: package.split("/") for package in packages}
    assert packages == {
        package: layer_of.get(names[0], layer_of.get(".".join(names[:2]))) for package, names in parts.items()
    }


def test_nothing_catches_by_except_star() -> None:
    # Before Python 3.11.4, an error that is raised there comes out inside another group: tasks.task_group.
    paths = (ROOT / name for name in tracked_files() if name.endswith(".py"))
    texts = {path: path.read_bytes() for path in paths if path.exists()}
    trees = {path: ast.parse(text) for path, text in texts.items() if b"except*" in text}
    assert [p for p, tree in trees.items() if any(isinstance(n, ast.TryStar) for n in ast.walk(tree))] == []


def test_examples_stay_small_enough_to_copy() -> None:
    for example in (path.parent for path in (ROOT / "examples").glob("*/README.md")):
        handlers = list(example.glob("*.py"))
        assert (example / "function.yaml").exists()
        assert len((example / "README.md").read_text().splitlines()) <= 15
        assert all(len(handler.read_text().splitlines()) <= 40 for handler in handlers)


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in tracked_files():
        if (
            path.startswith(tuple(f"{name}/" for name in CODE))
            and path.endswith(".py")
            and (ROOT / path).exists()
        ):
            yield path, ast.parse((ROOT / path).read_text())


def methods_in(node: ast.ClassDef) -> int:
    """A property and its setter are one."""
    return len(
        {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)}
    )


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """All that a caller may give."""
    given = node.args
    names = [given.vararg, given.kwarg, *given.posonlyargs, *given.args, *given.kwonlyargs]
    return sum(1 for one in names if one is not None and one.arg not in {"self", "cls"})


def too_large(tree: ast.Module) -> Iterator[str]:
    """The names of classes and functions, the latter behind the class that they stand in."""
    owners = {
        inner: f"{node.name}."
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for inner in node.body
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and methods_in(node) > _MOST_METHODS:
            yield node.name
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and parameters_of(node) > _MOST_PARAMETERS
        ):
            yield owners.get(node, "") + node.name


def test_a_package_has_few_enough_files_to_be_read_as_a_list() -> None:
    # Tests mirror what is here, topic by topic, and folders of data grow with what there is to say.
    folders = Counter(Path(path).parent for path, _ in modules() if not path.endswith("/__init__.py"))
    assert {str(folder): count for folder, count in folders.items() if count > _MOST_FILES} == {}


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path, _ in modules()}
    assert {path: lines for path, lines in lengths.items() if lines > _MOST_LINES} == {}


def test_one_name_is_one_class() -> None:
    homes: dict[str, list[str]] = {}
    for path, tree in modules():
        if path.startswith(("runtime/", "triggers/")):
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def docstrings() -> Iterator[tuple[str, str]]:
    """Pairs of where a docstring stands, as `path:line`, and its text."""
    for path, tree in modules():
        if path.endswith(_MADE_BY_PROTOC):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{path}:{getattr(node, 'lineno', 1)}", text


def test_a_docstring_is_understood_without_the_code_around_it() -> None:
    pointing = [f"{place}: {text.splitlines()[0]}" for place, text in docstrings() if _POINTING.match(text)]
    assert pointing == []


def test_a_package_says_what_it_is_and_has_no_code_in_its_init() -> None:
    talking = [
        path
        for path, tree in modules()
        if path.endswith("/__init__.py") and path not in _USERS_IMPORT_FROM + _NAME_THEIR_EXTRA
        if not all(
            isinstance(node, ast.Expr) and node is tree.body[0] and ast.get_docstring(tree)
            for node in tree.body
        )
    ]
    assert talking == []


def test_no_class_and_no_signature_is_too_large_but_those_that_are_today() -> None:
    found = [
        name
        for path, tree in modules()
        for name in too_large(tree)
        if not any(path.startswith(place) and name == one for place, one in _ONE_PER_OPTION)
    ]
    assert found == []


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """Which module imports which, also for types only and inside functions."""
    return grimp.build_graph("headrace")


def test_no_files_import_each_other(imports: grimp.ImportGraph) -> None:
    sorter = TopologicalSorter(
        {module: imports.find_modules_directly_imported_by(module) for module in imports.modules}
    )
    sorter.prepare()  # raises CycleError, which names the files


def test_no_two_packages_import_each_other(imports: grimp.ImportGraph) -> None:
    packages = {module for module in imports.modules if imports.find_children(module)}
    pairs = {
        (package_of(module, packages), package_of(imported, packages))
        for module in imports.modules
        for imported in imports.find_modules_directly_imported_by(module)
    }
    assert [pair for pair in pairs if pair[0] < pair[1] and pair[::-1] in pairs] == []


def package_of(module: str, packages: set[str]) -> str:
    return module if module in packages else module.rpartition(".")[0]
