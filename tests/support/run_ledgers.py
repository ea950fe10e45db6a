"""What a client says of a run, item by item, and what has to be stored of it in the end."""

import random
from dataclasses import dataclass, field
from typing import Any

from headrace.functions.run_tracking.store.tables import context_id

ARTIFACTS = 3
CONTEXTS: tuple[dict[str, Any] | None, ...] = (None, {"subset": "train"}, {"subset": "val", "fold": 1})


@dataclass
class Stored:
    """Of one run, whether said or read. Lists are in the order of their steps."""

    name: str | None = None
    experiment: str | None = None
    is_active: bool = True
    attrs: dict[str, Any] = field(default_factory=dict)
    metrics: dict[tuple[int, str, int], float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    artifacts: dict[str, bytes] = field(default_factory=dict)


class RunLedger:
    """A run of so many metrics. `items` go in order; a str among them is an artifact to upload.

    Between them the metric `order` counts up, without steps: the database gives them, in the order of
    what it sees.
    """

    def __init__(self, run_id: str, metrics: int, seed: int) -> None:
        self.run_id = run_id
        self.expected = Stored(name=f"run {run_id}", experiment=f"experiment {seed % 3}")
        self._chance = random.Random(seed)
        self._number = 0
        self.items: list[dict[str, Any] | str] = []
        self._begin()
        for step in range(metrics):
            self._metric(step)
            if step % 20 == 0:
                self._other(step // 20)
            if step % max(1, metrics // ARTIFACTS) == 0 and len(self.expected.artifacts) < ARTIFACTS:
                self._artifact(len(self.expected.artifacts))
        self.items.append({"type": "remove_tag", "tag_name": "started"})
        self.expected.tags.discard("started")
        self.items.append({"type": "finish_run", "client_datetime": "2026-05-01T13:00:00+00:00"})
        self.expected.is_active = False

    def _begin(self) -> None:
        rate = self._chance.random()
        self.items += [
            {"type": "create_run", "client_datetime": "2026-05-01T12:00:00+00:00", "force_resume": False},
            {"type": "set_run_property", "name": self.expected.name, "experiment": self.expected.experiment},
            {"type": "log_hparams", "value": {"hparams": {"lr": rate, "layers": [8, 4], "deep": {"a": 1}}}},
            {"type": "log_hparams", "value": {"hparams": {"deep": {"b": 2}}}},
            {"type": "add_tag", "tag_name": "started"},
            {"type": "add_tag", "tag_name": "kept"},
        ]
        self.expected.attrs = {"hparams": {"lr": rate, "layers": [8, 4], "deep": {"a": 1, "b": 2}}}
        self.expected.tags |= {"started", "kept"}

    def _metric(self, step: int) -> None:
        context, name = self._chance.choice(CONTEXTS), self._chance.choice(("loss", "accuracy"))
        value = self._chance.random()
        item = {"type": "log_metric", "name": name, "value": value, "step": step, "epoch": step // 100}
        self.items.append(
            item | {"context": context, "dtype": "float", "client_datetime": "2026-05-01T12:00:01+00:00"}
        )
        self.expected.metrics[context_id(context), name, step] = value

    def _other(self, step: int) -> None:
        number = len(self.expected.records)
        self.items += [
            {"type": "log_terminal_line", "line": f"line {step}", "step": step},
            self._named({"type": "log_record", "message": f"record {number}", "level": 20, "timestamp": 1.0}),
            self._named({"type": "log_metric", "name": "order", "value": float(number), "step": None}),
        ]
        self.expected.lines.append(f"line {step}")
        self.expected.records.append(f"record {number}")
        self.expected.metrics[0, "order", number] = float(number)

    def _named(self, item: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        return item | {"message_id": f"{self.run_id}/{self._number}"}

    def _artifact(self, number: int) -> None:
        path = f"models/{number}.bin"
        self.items.append(path)
        self.expected.artifacts[path] = self._chance.randbytes(5000)
