"""What a training run would say, made up."""

import json
import math
import random
from collections.abc import AsyncIterator

from headrace.functions.run_tracking.client.tracker import RunTracker

_STEPS_OF_EPOCH = 50
_TRAIN, _VAL = {"subset": "train"}, {"subset": "val"}


class Training:
    """Its loss falls, its accuracy rises; both are noisy, and worse where it has not been trained."""

    def __init__(self, number: int, steps: int, experiment: str, seed: int) -> None:
        """`steps` at 1 or more. The same seed and number say the same."""
        self._chance = random.Random(f"{seed}/{number}")  # noqa: S311  # nothing is secret
        self._number, self._steps, self._experiment = number, steps, experiment
        self._rate = 10 ** self._chance.uniform(-4, -1)
        self._pace = self._chance.uniform(3, 8) / steps
        self._best = self._chance.uniform(0.02, 0.2)

    async def log(self, tracker: RunTracker) -> None:
        """All of it. Raises TrackerError."""
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
        """With a line in the terminal at the end of each epoch."""
        line = 0
        for step in range(self._steps):
            yield step
            if step % _STEPS_OF_EPOCH == _STEPS_OF_EPOCH - 1 or step == self._steps - 1:
                said = f"epoch {step // _STEPS_OF_EPOCH}: loss {self._loss(step):.4f}"
                await tracker.log_terminal_line(said, line)
                await tracker.log_record(said)
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
