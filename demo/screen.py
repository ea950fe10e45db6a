"""Output of the demo while it runs: bars on a terminal, lines in a log."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from timeline import Sample
from totals import HEADINGS, TITLE, Totals, totals_as_text

_LINE_SECONDS = 5.0


class Screen:
    """Writes to stdout."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._line_at = 0.0

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False)

    @contextmanager
    def bars(self, count: int, names: list[str]) -> Iterator[None]:
        """Show progress bars, each full at `count` orders, while the context is open."""
        columns = (
            TextColumn("{task.description:12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, disable=not self._console.is_terminal) as bars:
            self._bars = bars
            self._tasks = {
                name: bars.add_task(name, total=count, note="")
                for name in ("produced", *names, "in the sinks")
            }
            yield

    def show(self, sample: Sample) -> None:
        """Update the bars; without a terminal print a line every few seconds."""
        assert self._bars is not None
        lag = f"lag {sample.lag:,}"
        counts = {"produced": sample.produced, **sample.handled, "in the sinks": sample.stored}
        for name, count in counts.items():
            note = lag if name == "in the sinks" else ""
            self._bars.update(self._tasks[name], completed=count, note=note)
        if not self._console.is_terminal and sample.seconds >= self._line_at:
            told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            self.say(f"{sample.seconds:4.0f} s  {told}, {lag}")
            self._line_at = sample.seconds + _LINE_SECONDS

    def table(self, totals: Totals) -> None:
        """Print a row for each window, a column for each product."""
        table = Table(title=TITLE)
        for name in HEADINGS:
            table.add_column(name, justify="right")
        *rows, last = totals_as_text(totals)
        for row in rows:
            table.add_row(*row)
        table.add_section()
        table.add_row(*last)
        self._console.print(table)
