"""The command line: `headrace`."""

import logging
import sys
from importlib import import_module

import click

from headrace.runtime.errors import HeadraceError, printable_lines
from headrace.runtime.processes import keep_files_private

# By name: the module here that has it. It is imported when it is asked for.
_COMMANDS = {
    "deadletters": "dead_letters",
    "invoke": "invoke",
    "kafka": "kafka",
    "new": "new",
    "partition": "partition",
    "run": "run",
    "schema": "schema",
    "v3io": "v3io.commands",
    "validate": "validate",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"headrace.runtime.cli.{_COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace")
def headrace() -> None:
    """Run Python functions on Kafka: every record is handled, none is lost."""


def main() -> None:
    """The entry point. A HeadraceError is its text and its exit code, never a traceback."""
    keep_files_private()
    try:
        headrace(prog_name="headrace")
    except HeadraceError as error:
        logging.shutdown()  # what led to it comes first
        click.echo(f"headrace: {printable_lines(str(error))}", err=True)
        sys.exit(error.exit_code)
