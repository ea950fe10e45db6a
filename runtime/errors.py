"""Errors that a user can meet: one base class, one line of text and one exit code each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


class HeadraceError(Exception):
    """A mistake or an outage that one line explains: what, where, and what to do.

    The command line prints `str(error)` and exits with `exit_code`; no traceback of ours is shown.
    """

    exit_code = 1

    @property
    def shown(self) -> str:
        """The text for a terminal. Text that it quotes, a server's say, can't pass for a line of its own."""
        return printable_lines(str(self)).replace("\n", "\n    ")


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a function's files. `line` is 1-based, 0 where no line applies.

    `via` is the option of the command line that brought it in, if one did.
    """

    file: str
    line: int
    path: str
    message: str
    via: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        where += f" ({self.via})" if self.via else ""
        message = one_line(self.message)
        return f"{where}: {self.path}: {message}" if self.path else f"{where}: {message}"


def printable(text: str) -> str:
    """`text` with all that a terminal might obey spelled out: control characters, line breaks, overrides."""
    # The check of the whole text is for speed: most texts pass it.
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """`text` with each of its lines made `printable`."""
    return text if text.isprintable() else "\n".join(printable(line) for line in text.split("\n"))


def one_line(text: str, most: int = 300) -> str:
    """`text` without line breaks and what else a terminal might obey; of a long one, its two ends."""
    shown = printable(text)
    return shown if len(shown) <= most else f"{shown[: most // 2]} ... {shown[-most // 2 :]}"


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def masked(text: str) -> str:
    """Return an address, or any other value, without the user and password that may stand before its `@`."""
    credentials, at, rest = text.rpartition("@")  # the last one: a password may hold another
    if ":" not in credentials:
        return text
    scheme = _SCHEME.match(credentials)
    return f"{scheme[0] if scheme else ''}***{at}{rest}"


class ConfigError(HeadraceError):
    """The mistakes in a function's files, one line each."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)

    @property
    def shown(self) -> str:
        """The text for a terminal: a line for each problem."""
        return "\n".join(printable(str(problem)) for problem in self.problems)


class UsageError(HeadraceError):
    """The command line or the machine cannot do what was asked: no Java, a port in use."""

    exit_code = 2


class BrokerError(HeadraceError):
    """The broker refused or did not answer."""

    exit_code = 3


class RefusedSettingError(BrokerError):
    """The broker refuses a value of the function's file: waiting doesn't help, changing the value does."""

    exit_code = 2


class HandlerLoadError(HeadraceError):
    """The user's handler could not be imported or its init_context raised."""

    exit_code = 2

    @property
    def shown(self) -> str:
        """The text for a terminal, with the user's own traceback as Python writes it."""
        return printable_lines(str(self))
