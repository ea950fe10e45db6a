"""Declaration of a command's options: each once, as a field of the dataclass that the command gets.

The field's name, type and default are the option's. A command is built from the fields, and so is the command
line of each replica.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from enum import Enum
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_KEY = "option"


class Reach(Enum):
    """Processes that an option is for, where one process has replicas of itself run."""

    EVERYBODY = "the parent, which passes it on to its replicas"
    PARENT = "the parent alone"
    REPLICA = "replicas alone: their parent gives it, and users don't see it"


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option, as its field declares it. `flag` is empty for arguments, `rest` is click's."""

    name: str
    flag: str
    reach: Reach
    default: Any
    rest: Mapping[str, Any]

    def decorate(self, command: Command) -> Command:
        """Give a command this parameter."""
        if not self.flag:
            return click.argument(self.name, nargs=-1, required=True, **self.rest)(command)
        return click.option(
            self.flag,
            self.name,
            default=self.default,
            show_default=bool(self.default),
            is_flag=self.default is False,
            multiple=self.default == (),
            hidden=self.reach is Reach.REPLICA,
            **self.rest,
        )(command)

    def words(self, value: Any) -> list[str]:
        """Return the words of a command line that give this option a value; arguments come last."""
        if not self.flag:
            return ["--", *map(str, value)]
        if isinstance(value, bool):
            return [self.flag] if value else []
        if isinstance(value, tuple):
            return [word for one in value for word in (self.flag, str(one))]
        return [] if value is None else [self.flag, str(value)]


def option(text: str = "", *, reach: Reach = Reach.EVERYBODY, flag: str = "", **rest: Any) -> dict[str, Any]:
    """Return the metadata of an option's field.

    `flag` is made of the field's name where none is given, `text` is for --help.
    """
    return {_KEY: (flag or None, reach, {"help": text or None, **rest})}


def argument(**rest: Any) -> dict[str, Any]:
    """Return the metadata of a field that stands on the command line by itself, at least once."""
    return {_KEY: ("", Reach.EVERYBODY, rest)}


def declared(options: type[Any]) -> list[CommandOption]:
    """Return the options of a dataclass, in the fields' order."""
    return [_read(field) for field in fields(options)]


def _read(field: Field[Any]) -> CommandOption:
    flag, reach, rest = field.metadata[_KEY]
    flag = "--" + field.name.replace("_", "-") if flag is None else flag
    return CommandOption(field.name, flag, reach, field.default, rest)


def parameters(options: type[Any]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command all of the options, by the fields' names."""

    def decorate(command: Command) -> Command:
        for one in reversed(declared(options)):  # decorators apply from the last to the first
            command = one.decorate(command)
        return command

    return decorate


def parameter(options: type[Any], name: str) -> Callable[[Command], Command]:
    """Return a decorator that gives a command one of the options."""
    (found,) = (one for one in declared(options) if one.name == name)
    return found.decorate


def command_line(options: Any) -> list[str]:
    """Return the words that have a replica go by these options: all but the parent's own."""
    passed_on = [one for one in declared(type(options)) if one.reach is not Reach.PARENT]
    passed_on.sort(key=lambda one: not one.flag)  # arguments last, behind "--": a path may begin with a dash
    return [word for one in passed_on for word in one.words(getattr(options, one.name))]
