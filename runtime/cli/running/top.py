"""`headrace top`: what a run does, again and again."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from headrace.runtime.cli.records.columns import Columns, View, watch
from headrace.runtime.cli.records.options import watch_options
from headrace.runtime.cli.running.admin_client import admin_option, not_an_admin_server, token_option
from headrace.runtime.cli.running.status_client import (
    PartitionRow,
    RunStatus,
    TriggerRow,
    ask_json,
    read_status,
)
from headrace.runtime.processor.stopping import until_signal

_HEADS = ("replica", "trigger", "partition", "worker", "lag", "rate", "in flight", "restarts", "state")
_RATE_SAMPLES = 5  # a second apart, as on the admin server's page

Place = tuple[str, str, str]
"""Replica, trigger and partition of a row."""


@click.command()
@admin_option
@token_option
@watch_options
def top(admin: str, admin_token: str, interval: float, count: int | None) -> None:
    """Watch what runs: of each trigger, and of each partition, worker, lag, rate, in flight and restarts.

    Redrawn on a terminal, until Ctrl-C; in a pipe, rows are appended. A rate is records a second that were
    handled, or settled offsets a second of a partition. What has halted comes first, then what lags most.

    Exit codes: 1 nobody answers, or not any more, 2 a mistake in the command.
    """
    until_signal(watch(_Top(admin, admin_token).fetch, interval, count))


@dataclass(slots=True)
class _Top:
    admin: str
    token: str
    _before: dict[Place, tuple[float, int]] = field(default_factory=dict)
    """When each partition was looked at last, seconds of a clock, and its lowest open offset then."""

    async def fetch(self) -> View:
        """Return the rows as they are now. Raises HeadraceError."""
        run = read_status(self.admin, await ask_json(self.admin, self.token, "/api/status"))
        handled = _handled_rates(self.admin, await ask_json(self.admin, self.token, "/api/recent"))
        rows = [row for trigger in run.triggers for row in self._rows(trigger, handled)]
        return View(Columns(_HEADS, rows), _summary(run))

    def _rows(self, trigger: TriggerRow, handled: Mapping[tuple[str, str], str]) -> Iterator[Sequence[str]]:
        who = (trigger.replica or "-", trigger.title)
        stuck = sum(it.is_stuck for it in trigger.partitions)
        numbers = (str(trigger.in_flight), str(trigger.restarts))
        rate = handled.get((trigger.replica, trigger.title), "-")
        yield (
            *who,
            "all",
            trigger.ready,
            str(trigger.lag),
            rate,
            *numbers,
            f"{stuck} halted" if stuck else "-",
        )
        # What has halted is what an operator has to act on; then comes what is furthest behind.
        for it in sorted(trigger.partitions, key=lambda it: (not it.is_stuck, -it.lag)):
            cells = (str(it.lag), self._rate((*who, it.place), it.committable), str(it.in_flight))
            yield *who, it.place, trigger.worker_of(it), *cells, _restarts(trigger, it), it.state

    def _rate(self, place: Place, committable: int) -> str:
        """Return the settled offsets a second since the last look."""
        now = time.monotonic()
        then, offset = self._before.get(place, (now, committable))
        self._before[place] = now, committable
        # The offset moves back where records are delivered again.
        return f"{max(0, committable - offset) / (now - then):.0f}" if now > then else "-"


def _restarts(trigger: TriggerRow, partition: PartitionRow) -> str:
    """Return the restarts of the partition's one worker, - where any may get its records."""
    return next((str(it.restarts) for it in trigger.workers if it.index == partition.worker), "-")


def _handled_rates(admin: str, recent: Any) -> dict[tuple[str, str], str]:
    """Return records a second, by replica and trigger; - before the first two samples."""
    try:
        return {
            (replica["name"], f"{trigger['function']}/{trigger['name']}"): _handled_rate(trigger["samples"])
            for replica in recent["replicas"]
            for trigger in replica["triggers"]
        }
    except (KeyError, TypeError, ValueError):
        raise not_an_admin_server(admin) from None


def _handled_rate(samples: Sequence[tuple[float, int, int, int]]) -> str:
    if len(samples) < 2:
        return "-"
    # A sample: when, the lag, how many events were handled in all, how many of them failed.
    # Five seconds lie between six samples.
    (then, _, before, _), *_, (now, _, handled, _) = samples[-_RATE_SAMPLES - 1 :]
    return f"{(handled - before) / (now - then):.0f}" if now > then else "-"


def _summary(run: RunStatus) -> str:
    problems = "; ".join(run.problems) or "ready"
    return f"{', '.join(run.functions)}: {problems}. Ctrl-C ends this"
