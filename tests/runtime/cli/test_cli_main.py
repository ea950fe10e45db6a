"""`headrace`: its commands are put together, each is imported when it is asked for."""

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from root import ROOT

from headrace.runtime.cli.main import headrace

CONTEXT = click.Context(headrace)


@pytest.mark.parametrize("name", headrace.list_commands(CONTEXT))
def test_each_command_is_where_it_is_looked_for(name: str) -> None:
    command = headrace.get_command(CONTEXT, name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_a_command_that_there_is_not_is_a_mistake_in_one_line() -> None:
    result = CliRunner().invoke(headrace, ["rnu"])
    assert result.exit_code == 2
    assert "No such command 'rnu'. Did you mean 'run'?" in result.output


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["kafka", "toppics"], "'topics'"),
        (["partition", "rtry"], "'retry'"),
        (["run", "--replica"], "--replicas"),
    ],
)
def test_what_is_nearly_a_command_or_an_option_is_named(words: list[str], meant: str) -> None:
    result = CliRunner().invoke(headrace, words)
    assert result.exit_code == 2
    assert meant in result.output.partition("Did you mean")[2]


def test_the_list_says_what_each_command_is_for() -> None:
    shown = CliRunner().invoke(headrace, ["--help"]).output
    lines = [line.split(maxsplit=1) for line in shown.partition("Commands:")[2].splitlines() if line]
    assert [name for name, _ in lines] == headrace.list_commands(CONTEXT)
    assert all(about.endswith(".") and not about.endswith("..") for _, about in lines)


UNNEEDED = {"aiohttp", "aiokafka", "asyncio", "prometheus_client", "pyspark", "rich"}


def loaded_by(*said: str) -> set[str]:
    """The modules of a process that has run a command, which has succeeded."""
    code = (
        "import json, sys; from headrace.runtime.cli.main import headrace\n"
        "try: headrace(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code, *said], capture_output=True, text=True, check=True)
    return set(json.loads(shown.stdout.splitlines()[-1]))


@pytest.mark.parametrize("said", [["--help"], ["new", "--help"]])
def test_a_command_waits_for_no_import_that_it_does_not_need(said: list[str]) -> None:
    loaded = loaded_by(*said)
    assert ("headrace.runtime.cli.new" in loaded) == ("new" in said)
    assert not loaded & {*UNNEEDED, "pydantic", "yaml"}


@pytest.mark.full_but("http_hello-http.settings")
@pytest.mark.parametrize(
    ("example", "module"),
    [
        ("hello_kafka", "kafka.settings.model"),
        ("http_hello", "http.settings"),
        ("cron_report", "cron.settings"),
        ("v3io_stream", "v3io.settings"),
        ("spark_orders", "kafka.settings.model"),
    ],
)
def test_validate_knows_settings_and_loads_nothing_that_runs(example: str, module: str) -> None:
    loaded = loaded_by("validate", str(ROOT / "examples" / example))
    assert f"headrace.triggers.{module}" in loaded
    assert not loaded & UNNEEDED
    assert not {it for it in loaded if it.startswith("headrace.triggers.") and it.endswith(".trigger")}
    assert not loaded & {"headrace.runtime.dispatch.dispatcher", "headrace.runtime.processor.processor"}
