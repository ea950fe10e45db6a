"""`python -m headrace.functions.run_tracking.client`: log several simulated runs at once."""

import asyncio
import json
import math
import random
import sys
import uuid
from collections.abc import AsyncIterator, Callable

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.functions.run_tracking.client.outbox import TrackerError
from headrace.functions.run_tracking.client.tracker import RunTracker

_STEPS_OF_EPOCH = 50
_TRAIN, _VAL = {"subset": "train"}, {"subset": "val"}


class Training:
    """A simulated training run. Loss falls and accuracy rises, with noise; validation is worse."""

    def __init__(self, number: int, steps: int, experiment: str, seed: int) -> None:
        """`steps` is 1 or more. The same seed and number give the same run."""
        # One generator for each run: the runs go on at once, and would draw from a shared one in any order.
        self._chance = random.Random(f"{seed}/{number}")  # noqa: S311  # nothing is secret
        self._number, self._steps, self._experiment = number, steps, experiment
        self._rate = 10 ** self._chance.uniform(-4, -1)
        self._pace = self._chance.uniform(3, 8) / steps
        self._best = self._chance.uniform(0.02, 0.2)

    async def log(self, tracker: RunTracker) -> None:
        """Log the whole run. Raises TrackerError."""
        await self._begin(tracker)
        async for step in self._each_step(tracker):
            await self._log_step(tracker, step)
        report = {"best": self._best, "steps": self._steps}
        await tracker.upload_artifact("report.json", json.dumps(report).encode(), "application/json")
        await tracker.upload_artifact("models/weights.bin", self._chance.randbytes(50_000))
        await tracker.remove_tag("running")
        await tracker.finish()

    async def _begin(self, tracker: RunTracker) -> None:
        await tracker.create_run()
        await tracker.set_property(name=f"run {self._number}", experiment=self._experiment)
        model = {"layers": self._chance.choice((2, 4, 8)), "width": self._chance.choice((64, 128, 256))}
        optimizer = {"name": self._chance.choice(("adam", "sgd")), "lr": self._rate}
        await tracker.log_hparams({"hparams": {"model": model, "optimizer": optimizer}})
        await tracker.add_tag("running")
        await tracker.add_tag(self._chance.choice(("baseline", "candidate")))

    async def _each_step(self, tracker: RunTracker) -> AsyncIterator[int]:
        """Yield the steps, and log a line at the end of each epoch."""
        line = 0
        for step in range(self._steps):
            yield step
            if step % _STEPS_OF_EPOCH == _STEPS_OF_EPOCH - 1 or step == self._steps - 1:
                text = f"epoch {step // _STEPS_OF_EPOCH}: loss {self._loss(step):.4f}"
                await tracker.log_terminal_line(text, line)
                await tracker.log_record(text)
                line += 1

    async def _log_step(self, tracker: RunTracker, step: int) -> None:
        epoch = step // _STEPS_OF_EPOCH
        for context, gap in ((_TRAIN, 1.0), (_VAL, 1.25)):
            loss = self._loss(step) * gap * self._chance.uniform(0.93, 1.07)
            accuracy = min(1.0, math.exp(-loss) * self._chance.uniform(0.98, 1.02))
            await tracker.log_metric("loss", loss, step, epoch, context)
            await tracker.log_metric("accuracy", accuracy, step, epoch, context)

    def _loss(self, step: int) -> float:
        return self._best + 2.3 * math.exp(-self._pace * step)


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
        # A training logs four points for each step, and few items besides.
        outcomes = asyncio.run(_log_all(trainings, frontier, patience, bar, 4 * steps))
    for run_id, _, error in outcomes:
        if error:
            click.echo(f"{run_id}: {error}", err=True)
    click.echo(f"{sum(items for _, items, _ in outcomes)} items of {runs} runs are acknowledged")
    sys.exit(1 if any(error for _, _, error in outcomes) else 0)


async def _log_all(
    trainings: list[Training], frontier: str, patience: float, bar: Progress, about: int
) -> list[tuple[str, int, str]]:
    """Return for each run its id, the number of acknowledged items, and its error or ""."""

    async def log(training: Training) -> tuple[str, int, str]:
        run_id = uuid.uuid4().hex
        task = bar.add_task(run_id[:8], total=about)
        tracker = RunTracker(
            frontier, run_id, give_up_after_seconds=patience, on_acknowledged=_advancing(bar, task)
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
