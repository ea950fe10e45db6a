"""Faults put back into the product, one at a time: the simulation has to find each of them.

usage: mutants.py [NAME...] [--count SEEDS] [--seed N]

Each runs in a process of its own, whose imports of the product are changed: nothing on disk is. A text that
isn't found, or is found twice, is an error: whoever changes those lines says what the fault looks like now.
"""

import argparse
import importlib.abc
import importlib.machinery
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

from root import ROOT


@dataclass(frozen=True, slots=True)
class Change:
    """Of one module: lines that are there once, and what stands in their place."""

    module: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault, in words, and how it comes about."""

    fault: str
    changes: tuple[Change, ...]


MUTANTS: Mapping[str, Mutant] = {
    "unheld": Mutant(
        "records are committed before their messages are written",
        (
            Change(
                "headrace.runtime.partitions.assigned",
                "        if self.held:\n            offset, acked",
                "        if not self:\n            offset, acked",
            ),
        ),
    ),
    "unanswered": Mutant(
        "a refused message has no record fail",
        (
            Change(
                "headrace.runtime.dispatch.produces",
                "            if call.failure:\n                self._fail(",
                "            if not call:\n                self._fail(",
            ),
        ),
    ),
    "ahead": Mutant(
        "what is taken back stays settled where it lies ahead of the fetch",
        (
            Change(
                "headrace.runtime.partitions.books.ledger",
                "        self._settled, self._ahead = IntervalSet(), IntervalSet()\n        for low",
                "        self._settled = IntervalSet()\n        for low",
            ),
        ),
    ),
    "spanned": Mutant(
        "a cumulative ack settles what was nacked below it",
        (
            Change(
                "headrace.runtime.partitions.assigned",
                "if at < first}",
                "if at < first and not partition}",
            ),
        ),
    ),
    "unordered": Mutant(
        "what comes back of a key that stands is put before what came back earlier",
        (
            Change(
                "headrace.runtime.partitions.buffers.records",
                "        if any(one[-1].offset > other[0].offset for one, other in pairwise(parts)):",
                "        if not parts:",
            ),
        ),
    ),
    "undecided": Mutant(
        "a record that fails while a later one of its key stands is not judged",
        (
            Change(
                "headrace.runtime.partitions.partition_lane",
                "        if self.state in _MAY_DECIDE_ANEW:",
                "        if self.state is PartitionState.ACTIVE:",
            ),
            Change(
                "headrace.runtime.dispatch.failures",
                "        if lane.is_undecided and (partition",
                "        if not lane and (partition",
            ),
        ),
    ),
    "logs": Mutant(
        "acks of a log before settle records of the one that has its name",
        (
            Change(
                "headrace.runtime.dispatch.acks.owned",
                "        if partition.log.has(said.log, said.offset):",
                "        if partition:",
            ),
        ),
    ),
    "blamed": Mutant(
        "with exactlyOnce, what was sent behind a refused message is blamed, and nobody is told of that",
        (
            Change(
                "headrace.triggers.kafka.produce.partition_producer",
                "        if not refused:\n",
                "        if len(refused) < len(failed):\n",
            ),
        ),
    ),
    "unasked": Mutant(
        "a transaction whose end is unknown is written anew, whether it stands or not",
        (
            Change(
                "headrace.triggers.kafka.transactions",
                "                    self._unknown[key] = said, topic\n",
                "                    pass\n",
            ),
        ),
    ),
}


class _Loader(SourceFileLoader):
    """Of a module that is changed."""

    def __init__(self, name: str, path: str, changes: Sequence[Change]) -> None:
        super().__init__(name, path)
        self._changes = changes

    def get_code(self, fullname: str) -> types.CodeType:
        """Never from a cache."""
        text = Path(self.path).read_text()
        for change in self._changes:
            if (found := text.count(change.before)) != 1:
                raise ImportError(f"{self.path}: is there {found} times, not once: {change.before!r}")
            text = text.replace(change.before, change.after)
        return compile(text, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """Ahead of all others."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of what is changed only."""
        changes = [it for it in self._mutant.changes if it.module == fullname]
        spec = PathFinder.find_spec(fullname, path, target) if changes else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, changes)
        return spec


def _run(name: str, first: int, count: int) -> int:
    """In a process of its own: 0 where a seed has found it."""
    mutant = MUTANTS[name]
    sys.meta_path.insert(0, _Finder(mutant))
    sys.path.append(str(ROOT / "tests" / "simulation"))
    from world import simulate  # only now it has the fault

    for seed in range(first, first + count):
        if violations := simulate(seed).violations:
            print(f"{name} ({mutant.fault}): found by seed {seed}: {violations[0]}")
            return 0
    print(f"{name} ({mutant.fault}): NOT FOUND by {count} seeds from {first} on")
    return 1


def main() -> int:
    """0 where all were found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MUTANTS, []], help="which; else all")
    parser.add_argument("--count", type=int, default=100, help="seeds for each, at most")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--run", choices=MUTANTS, help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.run is not None:
        return _run(options.run, options.seed, options.count)
    numbers = [f"--count={options.count}", f"--seed={options.seed}"]
    codes = [
        subprocess.run([sys.executable, __file__, f"--run={name}", *numbers], check=False).returncode
        for name in options.names or MUTANTS
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
