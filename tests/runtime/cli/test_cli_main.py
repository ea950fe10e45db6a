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


def test_a_command_waits_for_no_import_that_it_does_not_need() -> None:
    code = (
        "import json, sys; from headrace.runtime.cli.main import headrace;"
        "headrace(['new', '--help'], standalone_mode=False); print(json.dumps(sorted(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(shown.stdout.splitlines()[-1]))
    assert "headrace.runtime.cli.new" in loaded
    assert not loaded & {"aiohttp", "aiokafka", "prometheus_client", "pydantic", "rich", "yaml"}
