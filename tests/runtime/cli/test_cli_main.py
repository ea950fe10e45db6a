"""`headrace`: its commands are put together, each is imported when it is asked for."""

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

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
    assert "No such command 'rnu'" in result.output


def test_the_list_says_what_each_command_is_for() -> None:
    shown = CliRunner().invoke(headrace, ["--help"]).output
    lines = [line.split(maxsplit=1) for line in shown.partition("Commands:")[2].splitlines() if line]
    assert [name for name, _ in lines] == headrace.list_commands(CONTEXT)
    assert all(about.endswith(".") and not about.endswith("..") for _, about in lines)


@pytest.mark.parametrize("said", [["--help"], ["new", "--help"]])
def test_a_command_waits_for_no_import_that_it_does_not_need(said: list[str]) -> None:
    code = (
        "import json, sys; from headrace.runtime.cli.main import headrace;"
        f"headrace({said}, standalone_mode=False); print(json.dumps(sorted(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(shown.stdout.splitlines()[-1]))
    assert ("headrace.runtime.cli.new" in loaded) == ("new" in said)
    assert not loaded & {"aiohttp", "aiokafka", "prometheus_client", "pydantic", "rich", "yaml"}
