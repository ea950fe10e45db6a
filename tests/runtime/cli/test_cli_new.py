"""`headrace new`: what it makes passes its own tests, and runs."""

import subprocess
import sys
from pathlib import Path

import command
import pytest
from broker import Broker
from click.testing import CliRunner
from kafka_records import produce
from replica import replica, wait_until
from root import ROOT

from headrace.runtime.cli.new import new
from headrace.runtime.errors import UsageError


def make(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    """What it prints; made in `folder`."""
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(new, [name, *more])
    assert result.exit_code == 0, result.exception
    return result.stdout


def refused(name: str) -> str:
    result = CliRunner().invoke(new, [name])
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


@pytest.mark.full
def test_what_it_makes_passes_its_own_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = make(tmp_path, "greeter-2", monkeypatch)
    commands = [line.strip() for line in told.splitlines() if line.startswith("    ")]
    assert commands == ["cd greeter-2", "python -m pytest", "headrace run . --embedded-kafka"]
    pytest_command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    result = subprocess.run(
        pytest_command, cwd=tmp_path / "greeter-2", capture_output=True, text=True, check=False
    )
    assert "2 passed" in result.stdout, result.stdout


@pytest.mark.full_but("kafka")
@pytest.mark.parametrize(
    "template",
    ["async", "batch", "http", "kafka", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.full])],
)
def test_each_template_is_valid_and_passes_its_own_tests(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = make(tmp_path, "greeter", monkeypatch, "--template", template)
    assert ("--embedded-kafka" in told) == (template != "http")
    folder = tmp_path / "greeter"
    assert not [file for file in folder.iterdir() if "NAME" in file.read_text()]
    assert command.run("validate", str(folder)).returncode == 0
    pytest_command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    result = subprocess.run(pytest_command, cwd=folder, capture_output=True, text=True, check=False)
    assert "passed" in result.stdout, result.stdout
    assert result.returncode == 0, result.stdout


@pytest.mark.processes
@pytest.mark.parametrize("example", ["async_http", "spark_orders", "v3io_stream"])
def test_an_example_is_copied_whole_and_is_valid(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = make(tmp_path, "mine", monkeypatch, "--example", example)
    assert told.endswith("    cd mine\n    cat README.md\n")
    copied = {file.name for file in (tmp_path / "mine").iterdir()}
    assert copied == {file.name for file in (ROOT / "examples" / example).iterdir() if file.is_file()}
    assert "name: mine" in (tmp_path / "mine" / "function.yaml").read_text()
    assert command.run("validate", str(tmp_path / "mine")).returncode == 0


def test_a_template_and_a_ready_made_function_exclude_each_other() -> None:
    result = CliRunner().invoke(new, ["greeter", "--template", "http", "--from", "long_tasks"])
    assert isinstance(result.exception, UsageError)


@pytest.mark.full
def test_what_it_makes_runs_on_a_kafka_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "words", monkeypatch)
    with replica(tmp_path / "words", "--embedded-kafka") as running:
        running.wait_ready()
        broker = Broker(running.log.split("embedded Kafka at ")[1].split()[0], "embedded")
        produce(broker, "words", 8)
        wait_until(lambda: running.log.count("handler: a record") == 8, about=running)
        assert "words=1" in running.log
        assert running.stop() == 0


@pytest.mark.parametrize("ready_made", ["long_tasks", "model_metrics", "spark_pipeline"])
def test_a_ready_made_function_gets_a_name_of_its_own(
    ready_made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(new, ["flowers", "--from", ready_made]).stdout
    assert "flowers/ has function.yaml, README.md." in told
    assert told.endswith("    cd flowers\n    cat README.md\n")
    spec = (tmp_path / "flowers" / "function.yaml").read_text()
    assert "name: flowers" in spec
    assert f"handler: headrace.functions.{ready_made}.handler:handler" in spec
    assert ready_made.replace("_", "-") not in spec
    assert (tmp_path / "flowers" / "README.md").read_text().startswith(f"# {ready_made}")


def test_no_placeholder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "words", monkeypatch)
    assert not [file for file in (tmp_path / "words").iterdir() if "NAME" in file.read_text()]


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    assert refused("orders") == "orders is there already; choose another name or another folder"
    assert not list((tmp_path / "orders").iterdir())


@pytest.mark.parametrize("name", ["", "Orders", "a/b", "..", "a-", "a" * 64, "a b"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert "is no name for a function" in refused(name)
