"""What all storms share: repetitions, figures against bounds, a broker of their own."""

import argparse
import asyncio
import random
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from broker import Broker

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka


@dataclass
class Figure:
    """One measured thing, over all repetitions."""

    low: float
    high: float
    values: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Report:
    """Figures of one scenario. A value outside its bounds is a violation.

    `seconds` is how long the load of a repetition is to last, where a scenario has one. A time (", s") may
    be `patience` times its bound: a storm has the machine to itself, a test among others may not.
    """

    def __init__(self, seconds: float = 0, patience: float = 10) -> None:
        self.seconds = seconds
        self._patience = patience
        self._figures: dict[str, Figure] = {}
        self._faults: dict[str, int] = {}
        self._numbers: set[int] = set()

    def add_faults(self, what: str, count: int, number: int, low: int = 1) -> None:
        """What was done in repetition `number`, as in "12 kills"."""
        self._faults[what] = self._faults.get(what, 0) + count
        self.add(what, count, low, 1e9, number)

    def add(self, name: str, value: float, low: float, high: float, number: int) -> None:
        """What repetition `number` gave."""
        self._numbers.add(number)
        high *= self._patience if name.endswith(", s") else 1
        figure = self._figures.setdefault(name, Figure(low, high))
        figure.low, figure.high = min(figure.low, low), max(figure.high, high)  # for people
        figure.values.append(value)
        if not low <= value <= high:
            figure.violations.append(f"repetition {number}: {value:.3f}")

    def show(self, scenario: str) -> bool:
        """Print; whether there was something to show, and every bound held."""
        faults = [f"{count} {what}" for what, count in self._faults.items()]
        print(f"{scenario}: {', '.join([f'{len(self._numbers)} repetitions', *faults])}", flush=True)
        for name, figure in self._figures.items():
            found = sorted(figure.values)
            print(
                f"{scenario}: {name}: {len(found)} times, min {found[0]:.3f}, "
                f"median {statistics.median(found):.3f}, max {found[-1]:.3f}, "
                f"bound {figure.low:g} to {figure.high:g}, violations {len(figure.violations)}",
                flush=True,
            )
            for violation in figure.violations:
                print(f"  VIOLATION {violation}")
        if not self._figures:
            print(f"{scenario}: no figures", flush=True)
        return bool(self._figures) and not self.broken

    @property
    def broken(self) -> list[str]:
        """The names of the figures that were outside their bounds."""
        return [name for name, figure in self._figures.items() if figure.violations]


# Called with an empty folder, the number of the repetition, and where its figures go.
Alone = Callable[[Path, int, Report], None]
# Called with the broker, an empty folder, the number of the repetition, and where its figures go.
Scenario = Callable[[Broker, Path, int, Report], None]


async def main(scenarios: Mapping[str, Scenario], description: str) -> int:
    """The command line; 0 where every bound held."""
    options = _options(scenarios, description)
    async with EmbeddedKafka() as kafka:
        broker = Broker(kafka.bootstrap, "embedded")
        return await _run({name: partial(it, broker) for name, it in scenarios.items()}, options)


async def main_without_broker(scenarios: Mapping[str, Alone], description: str) -> int:
    """The same of scenarios that start what they need."""
    return await _run(scenarios, _options(scenarios, description))


def _options(scenarios: Iterable[str], description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", nargs="?", choices=list(scenarios))
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the random moments")
    parser.add_argument("--seconds", type=float, default=20, help="of load in one repetition")
    return parser.parse_args()


async def _run(scenarios: Mapping[str, Alone], options: argparse.Namespace) -> int:
    print(f"seed {options.seed}", flush=True)
    chosen = [options.scenario] if options.scenario else list(scenarios)
    held = []
    for name in chosen:
        report = Report(options.seconds, patience=1)
        try:
            for number in range(options.count):
                random.seed(f"{options.seed} {name} {number}")
                with tempfile.TemporaryDirectory() as folder:
                    await asyncio.to_thread(scenarios[name], Path(folder), number, report)
        finally:  # what was found before it ended early counts too
            held.append(report.show(name))
    return 0 if all(held) else 1
