"""`python -m headrace.functions.run_tracking.client`: logs runs that are made up, several at once."""

import asyncio
import sys
import uuid
from collections.abc import Callable

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.functions.run_tracking.client.errors import TrackerError
from headrace.functions.run_tracking.client.tracker import RunTracker
from headrace.functions.run_tracking.client.training import Training


@click.command()
@click.option("--runs", type=click.IntRange(1), default=4, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=500, show_default=True, help="Of each run.")
@click.option("--frontier", default="http://127.0.0.1:53801", show_default=True, metavar="URL")
@click.option("--experiment", default="made up", show_default=True, metavar="NAME")
@click.option("--seed", default=0, show_default=True, help="Runs of the same seed say the same.")
@click.option(
    "--patience", default=300.0, show_default=True, help="Seconds without a reply, to the last one."
)
def main(  # noqa: PLR0913, PLR0917  # one parameter per option
    runs: int, steps: int, frontier: str, experiment: str, seed: int, patience: float
) -> None:
    """Log runs, show how far they are. Exit code 1 where the frontier hasn't taken all of one."""
    trainings = [Training(number, steps, experiment, seed) for number in range(1, runs + 1)]
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} items"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        outcomes = asyncio.run(_log_all(trainings, frontier, patience, bar, 4 * steps))
    for run_id, _, error in outcomes:
        if error:
            click.echo(f"{run_id}: {error}", err=True)
    click.echo(f"{sum(items for _, items, _ in outcomes)} items of {runs} runs are acknowledged")
    sys.exit(1 if any(error for _, _, error in outcomes) else 0)


async def _log_all(
    trainings: list[Training], frontier: str, patience: float, bar: Progress, about: int
) -> list[tuple[str, int, str]]:
    """Of each run: its id, the items that were acknowledged, and what went wrong, or nothing."""

    async def log(training: Training) -> tuple[str, int, str]:
        run_id = uuid.uuid4().hex
        task = bar.add_task(run_id[:8], total=about)
        tracker = RunTracker(
            frontier, run_id, patience_seconds=patience, on_acknowledged=_advancing(bar, task)
        )
        try:
            async with tracker:
                await training.log(tracker)
        except TrackerError as error:
            return run_id, tracker.acknowledged, str(error)
        bar.update(task, total=tracker.acknowledged)
        return run_id, tracker.acknowledged, ""

    return await asyncio.gather(*map(log, trainings))


def _advancing(bar: Progress, task: object) -> Callable[[int], object]:
    return lambda items: bar.advance(task, items)  # type: ignore[arg-type]  # rich's own TaskID


if __name__ == "__main__":
    main()
