"""How `headrace validate` and `run` end: the same for both, with --set and for files side by side."""

import subprocess
from pathlib import Path

import pytest
from command import one_line, run
from forked import PROGRAM
from replica import environment
from validated import AT, FUNCTION, HANDLER, MISTAKES, attribute, write


@pytest.mark.full_but("tabs")
@pytest.mark.parametrize("name", ["unknown-attribute", "missing-module", "missing-handler", "tabs"])
def test_run_says_the_same_before_it_starts_anything(tmp_path: Path, name: str) -> None:
    change, expected = MISTAKES[name]
    folder = write(tmp_path / "f", change(FUNCTION))
    result = run("run", str(folder), "--embedded-kafka", "--replicas", "2")
    assert one_line(result, code=2).endswith(expected.replace("FOLDER", str(folder)))
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_is_not_there_or_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "function.yaml").write_bytes(b"\xff")
    missing = tmp_path / "missing.yaml"
    assert run("validate", str(missing), str(tmp_path)).stdout.splitlines() == [
        (
            f"{missing}: cannot be read: No such file or directory;"
            " expected a function.yaml or a folder with one"
        ),
        f"{tmp_path}/function.yaml: is not UTF-8 text",
    ]


def test_valid_and_invalid_functions_side_by_side(tmp_path: Path) -> None:
    good = write(tmp_path / "good", attribute("version: 2.8.0")(FUNCTION))
    bad = write(tmp_path / "bad", attribute("fetchMax: x")(attribute("fetchMin: x")(FUNCTION)))
    result = run("validate", str(good), str(bad))
    assert result.returncode == 2
    assert [line.partition(": ")[2] for line in result.stdout.splitlines()] == [
        "function orders is valid",
        (
            f"{good}/function.yaml:13: {AT}.version: has no effect here:"
            " the client finds out what the broker speaks"
        ),
        f"{AT}.fetchMin: 'x' is not an int; expected a whole number, without quotes",
        f"{AT}.fetchMax: 'x' is not an int; expected a whole number, without quotes",
    ]
    assert run("validate", str(good)).returncode == 0


def test_inline_configuration_validates_and_runs(tmp_path: Path) -> None:
    block = "".join(
        f"#  {line}\n" for line in ["function.yaml:", *(f"  {row}" for row in FUNCTION.splitlines())]
    )
    file = tmp_path / "inline.py"
    file.write_text(
        "# @nuclio.configure\n" + block.replace("main:handler", "inline:handler") + "\n" + HANDLER
    )
    assert run("validate", str(file)).stdout == f"{file}: function orders is valid\n"
    result = run("run", str(file), "--set", "disable=true", "--replicas", "2")
    assert "spec.disable is true" in one_line(result, code=2)


@pytest.mark.full
def test_what_cannot_run_together_is_a_line_in_both_commands(tmp_path: Path) -> None:
    first, second = write(tmp_path / "first", FUNCTION), write(tmp_path / "second", FUNCTION)
    expected = (
        f"{second}/function.yaml:4: metadata.name: 'orders' is the name of {first}/function.yaml too;"
        " functions that run together need different names"
    )
    result = run("validate", str(first), str(second))
    assert result.stdout.splitlines() == [f"{first}/function.yaml: function orders is valid", expected]
    assert result.returncode == 2
    assert one_line(run("run", str(first), str(second), "--admin-port", "0"), code=2).endswith(expected)


def test_a_function_that_is_disabled_may_have_anothers_name(tmp_path: Path) -> None:
    first = write(tmp_path / "first", FUNCTION)
    second = write(tmp_path / "second", FUNCTION.replace("spec:\n", "spec:\n  disable: true\n"))
    assert run("validate", str(first), str(second)).returncode == 0


def test_a_spark_that_is_not_installed_is_a_line_in_both_commands(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", FUNCTION.replace("spec:\n", "spec:\n  spark: {}\n"))
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(
        "import importlib.metadata as m\n"
        "real = m.version\n"
        "m.version = lambda name: real(name if name != 'pandas' else 'not-here')\n"
    )
    for command in (["validate"], ["run", "--admin-port", "0"]):
        result = subprocess.run(
            [*PROGRAM, *command, str(folder)],
            env=environment(PYTHONPATH=str(tmp_path / "hidden")),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        (line,) = (result.stdout + result.stderr).splitlines()
        assert result.returncode == 2
        assert line.endswith(
            f"{folder}/function.yaml:8: spec.spark: needs the extra: pip install 'headrace[spark]'"
            " (missing: pandas)"
        )


@pytest.mark.full
def test_a_set_for_a_trigger_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", FUNCTION)
    for command in ("validate", "run"):
        result = run(command, str(folder), "--set", "triggers.tt.numWorkers=4")
        (line,) = (result.stdout + result.stderr).splitlines()
        assert line.endswith(
            f"{folder}/function.yaml (--set): spec.triggers.tt: is no trigger of the file, which has t;"
            " a whole one needs its kind"
        )


def test_a_wrong_set_is_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", FUNCTION)
    for command in ("validate", "run"):
        line = one_line(run(command, str(folder), "--set", "triggers.t.numWorkers"), code=2)
        assert line.endswith("expected KEY=VALUE, such as triggers.orders.numWorkers=4")
