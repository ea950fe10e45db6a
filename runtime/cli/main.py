"""The command line, `headrace`: its list of commands, and its entry point."""

import gc
import logging
import sys
from importlib import import_module
from keyword import iskeyword

import click

from headrace.runtime.errors import HeadraceError
from headrace.runtime.processes import keep_files_private, stop_at_once

# By name: the module here that has it, which is imported when it is asked for, and what the list says of it.
_COMMANDS = {
    "deadletters": ("kafka.dead_letters", "Look at the records of a dead-letter topic; send them back."),
    "invoke": ("running.invoke", "Call a running function over HTTP."),
    "kafka": ("kafka.commands", "A broker, and hands on it or any other one."),
    "new": ("new", "Make a folder with a function that runs."),
    "partition": ("running.partition", "Move a partition on that has halted at a failed record."),
    "run": ("run", "Run functions until Ctrl-C."),
    "schema": ("schema", "Print the JSON schema of function.yaml."),
    "status": ("running.status", "Show what runs: workers, partitions, what has halted and why."),
    "top": ("running.top", "Watch what runs: lag, rate, in flight, restarts."),
    "try": ("try_record.command", "Call a handler with one record, here and now."),
    "v3io": ("v3io.commands", "A v3io server, and hands on it or any other one."),
    "validate": ("validate", "Say all that is wrong with functions, and what is in effect."),
}


class _Commands(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            # From the table: click's own list would import every command to ask it for its help.
            formatter.write_dl([(name, about) for name, (_, about) in sorted(_COMMANDS.items())])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name == "run":
            stop_at_once()  # until there is an event loop: what it imports takes a second
        gc.disable()  # what an import makes stays: to look at it meanwhile takes a tenth of the start
        try:
            module = import_module(f"headrace.runtime.cli.{_COMMANDS[cmd_name][0]}")
        finally:
            gc.enable()
        # `try` is a keyword, so its function is called `try_`.
        command: click.Command = getattr(module, cmd_name + "_" * iskeyword(cmd_name))
        return command


# Their names, for lists and for what a mistyped one may have meant; `get_command` has the commands.
_NAMES = [click.Command(name) for name in _COMMANDS]


@click.group(cls=_Commands, commands=_NAMES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace")
def headrace() -> None:
    """Run Python functions on Kafka: every record is handled, none is lost."""


def main() -> None:
    """Run the command line. A HeadraceError ends as its text and its exit code, never as a traceback."""
    keep_files_private()
    try:
        headrace(prog_name="headrace")
    except HeadraceError as error:
        logging.shutdown()  # what led to it comes first
        click.echo(f"headrace: {error.shown}", err=True)
        sys.exit(error.exit_code)
