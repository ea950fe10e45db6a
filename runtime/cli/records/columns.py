"""Rows for people: a table on a terminal, plain columns where a program reads; once, or again and again."""

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.runtime.errors import printable


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows below heads. What a terminal might obey in them is spelled out."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def table(self) -> Table:
        """Return the rows as rich's table, for a terminal."""
        table = Table(*self.heads)
        for row in self.rows:
            table.add_row(*(Text(printable(cell)) for cell in row))  # as Text, [brackets] are no markup
        return table

    def lines(self, widths: list[int]) -> Iterator[str]:
        """Yield the heads, then the rows, in aligned columns.

        No cell is cut: `widths` grow to what the columns need.
        """
        cells = [list(self.heads), *(list(map(printable, row)) for row in self.rows)]
        needed = [max(map(len, column)) for column in zip(*cells, strict=True)]
        # In place: the caller keeps them for the rows that come later.
        widths[:] = map(max, widths or needed, needed)
        for row in cells:
            yield "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def shown(number: int | None) -> str:
    """Return a number as the text of a cell; - for None."""
    return "-" if number is None else str(number)


def show_columns(columns: Columns) -> None:
    """Print the rows once."""
    if sys.stdout.isatty():  # else a program reads: no borders, and nothing is cut
        Console().print(columns.table())
    else:
        click.echo("\n".join(columns.lines([])))


@dataclass(frozen=True, slots=True)
class View:
    """Rows as they are now, and a line below them that only terminals show."""

    columns: Columns
    below: str = ""


async def watch(fetch: Callable[[], Awaitable[View]], seconds: float, count: int | None) -> None:
    """Show a view again and again: redrawn on a terminal, appended in a pipe.

    `fetch` is called every so many `seconds`, `count` times or until this is cancelled.
    """
    if sys.stdout.isatty():
        # Drawn when there is something new, and not by a thread of rich's four times a second.
        with Live(auto_refresh=False) as live:
            await _each(fetch, lambda view: live.update(_drawn(view), refresh=True), seconds, count)
    else:
        await _each(fetch, _Appended().show, seconds, count)


async def _each(
    fetch: Callable[[], Awaitable[View]], show: Callable[[View], None], seconds: float, count: int | None
) -> None:
    for number in range(count) if count else itertools.count():
        await asyncio.sleep(seconds if number else 0)  # the first view is shown at once
        show(await fetch())


def _drawn(view: View) -> Group:
    return Group(view.columns.table(), Text(printable(view.below)))


@dataclass(slots=True)
class _Appended:
    """Rows for a pipe: heads once, then rows that begin with the time."""

    _widths: list[int] = field(default_factory=list)

    def show(self, view: View) -> None:
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        is_first = not self._widths  # which only grow: later rows stand below the heads of the first ones
        timed = Columns(["time", *view.columns.heads], [[now, *row] for row in view.columns.rows])
        heads, *rows = timed.lines(self._widths)
        for line in [heads, *rows] if is_first else rows:
            click.echo(line)
