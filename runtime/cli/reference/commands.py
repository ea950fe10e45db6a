"""The command-line reference, docs/reference/command-line.md, from the commands as click has them."""

import inspect
from collections.abc import Iterator

import click

from headrace.runtime.config.reference import table

_COMMANDS_HEAD = """\
# Command line

Every command and its options. `headrace schema --commands` generates this page from the commands themselves;
`headrace COMMAND --help` prints the same in a terminal.
"""
_COLUMNS = ("option", "default", "effect")


def command_reference(root: click.Context) -> str:
    """Markdown: a section for each command below `root`, hidden ones left out."""
    return "\n".join([_COMMANDS_HEAD, *_section(root)])


def _section(context: click.Context) -> Iterator[str]:
    """Of a command, then of those below it."""
    command = context.command
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"## `{context.command_path}`", "", f"`{context.command_path} {usage}`", "")
    yield from (_help(command), "")
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    if options:
        yield from (*table(_COLUMNS, [_option_row(option, context) for option in options]), "")
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        below = command.get_command(context, name) if isinstance(command, click.Group) else None
        if below is not None and not below.hidden:
            yield from _section(click.Context(below, info_name=name, parent=context))


def _help(command: click.Command) -> str:
    """As in the docstring, without click's mark for lines that it shall not wrap."""
    return inspect.cleandoc(command.help or "").replace("\b\n", "")


def _option_row(option: click.Option, context: click.Context) -> tuple[str, ...]:
    value = "" if option.is_flag else f" {option.make_metavar(context).removesuffix(' RANGE')}"
    names = ", ".join(f"`{name}{value}`" for name in option.opts)
    return names, _default(option, context), _effect(option)


def _default(option: click.Option, context: click.Context) -> str:
    """What stands in where the option isn't given; nothing for flags and where there is none."""
    default = option.get_default(context)
    if option.required:
        return "required"
    is_shown = isinstance(default, str | int | float) and not option.is_flag and default != ""
    return f"`{default}`" if is_shown else ""


def _effect(option: click.Option) -> str:
    variable = f"or the variable `{option.envvar}`" if option.envvar else ""
    repeated = "may be given several times" if option.multiple else ""
    more = ", ".join(filter(None, (variable, repeated)))
    return (option.help or "") + (f" ({more})" if more else "")
