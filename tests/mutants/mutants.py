"""Faults put into the product, one at a time: the test that each of them names has to catch it.

usage: mutants.py [NAME...] [--set quick|test] [--table]

It happens in a copy of the repository that is gone at the end. What isn't caught, or isn't what it was
written for any more, ends this with 1: whoever changes those lines says what the fault looks like now.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

from areas import (
    acks,
    assignment,
    committer,
    cron,
    fences,
    http,
    kafka,
    lanes,
    ledger,
    plans,
    retries,
    spark,
    transactions,
    v3io,
    wire,
)
from mutant import ROOT, Mutant
from workshop import Workshop

AREAS: tuple[tuple[Mutant, ...], ...] = (
    *(ledger.MUTANTS, lanes.MUTANTS, plans.MUTANTS, committer.MUTANTS, acks.MUTANTS, retries.MUTANTS),
    *(assignment.MUTANTS, fences.MUTANTS, wire.MUTANTS, transactions.MUTANTS, kafka.MUTANTS),
    *(v3io.MUTANTS, http.MUTANTS, cron.MUTANTS, spark.MUTANTS),
)
MUTANTS = {mutant.name: mutant for area in AREAS for mutant in area}
PRODUCT = "tests/mutants/test_product.py"
_SETS = {"quick": True, "test": False}
_LEAD = """# Mutants

`make mutants` puts each of these faults into a copy of the product, one at a time, and runs the test
beside it, which has to fail. L1 to L9 are lines of [DESIGN.md](../../DESIGN.md); the other promises are
of [the README](../../README.md), [requests](../guide/http.md), [cron](../guide/cron.md) and
[Spark](../guide/spark.md).
"""


def table(mutants: Iterable[Mutant]) -> str:
    """Markdown: a row for each, by what it breaks."""
    rows = [f"| {it.promise} | `{it.test}` | {it.name}: {it.fault} |" for it in sorted(mutants, key=_rank)]
    return "\n".join((_LEAD, "| promise | test | mutant |", "|---|---|---|", *rows, ""))


def _rank(mutant: Mutant) -> tuple[bool, str, str]:
    is_other = not mutant.promise.startswith("L")
    return is_other, mutant.promise, mutant.test


def prove(workshop: Workshop, mutants: Sequence[Mutant]) -> int:
    """0 where each is caught by its test, and its test passes without it."""
    if not _is_sound(workshop, mutants):
        return 1
    survivors = [mutant.name for mutant in mutants if not _is_caught(workshop, mutant)]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} are caught")
    if survivors:
        print(f"not caught: {' '.join(survivors)}")
    return 1 if survivors else 0


def _is_sound(workshop: Workshop, mutants: Sequence[Mutant]) -> bool:
    """The copy's tests are of the copy's product, and pass as it is: else nothing is proven."""
    runs = [("the product", [PRODUCT], False)]
    for name, is_quick in _SETS.items():
        if tests := sorted({mutant.test for mutant in mutants if mutant.is_quick is is_quick}):
            runs.append((name, tests, is_quick))
    for name, tests, is_quick in runs:
        outcome = workshop.run(tests, is_quick=is_quick)
        print(f"{name}: {len(tests)} tests without a fault: {outcome.last_line}", flush=True)
        if not outcome.is_passed:
            print(outcome.text)
            return False
    return True


def _is_caught(workshop: Workshop, mutant: Mutant) -> bool:
    try:
        with workshop.changed(mutant):
            outcome = workshop.run([mutant.test], is_quick=mutant.is_quick)
    except ValueError as error:
        print(f"{mutant.name}: ERROR: {error}", flush=True)
        return False
    about = f"{mutant.name}, {mutant.promise}: {mutant.fault}"
    if outcome.is_caught:
        print(f"{about}; caught by {mutant.test}, {outcome.seconds:.1f} s", flush=True)
    elif outcome.is_passed:
        print(f"{about}; SURVIVES {mutant.test}, {outcome.seconds:.1f} s", flush=True)
    else:
        print(f"{about}; ERROR: {outcome.last_line}\n{outcome.text}", flush=True)
    return outcome.is_caught


def main() -> int:
    """0 where all that were asked for are caught."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; else all")
    parser.add_argument("--set", choices=_SETS, help="those whose tests start no process, or the others")
    parser.add_argument("--table", action="store_true", help="print docs/design/mutants.md, and run nothing")
    options: Any = parser.parse_args()
    if unknown := [name for name in options.names if name not in MUTANTS]:
        parser.error(f"there is no mutant {unknown[0]}")
    if options.table:
        print(table(MUTANTS.values()), end="")
        return 0
    chosen = [
        mutant
        for mutant in MUTANTS.values()
        if (not options.names or mutant.name in options.names)
        and (options.set is None or mutant.is_quick is _SETS[options.set])
    ]
    signal.signal(signal.SIGTERM, _end)
    with ExitStack() as ends:
        folder = ends.enter_context(tempfile.TemporaryDirectory(prefix="headrace-mutants-"))
        if any(not mutant.is_quick for mutant in chosen):
            sys.path.append(str(ROOT / "tests" / "support"))
            from servers import running  # those of all runs, so that each starts once

            ends.enter_context(running())
        return prove(Workshop(Path(folder)), chosen)


def _end(*_: object) -> NoReturn:
    """With all that is to be tidied up."""
    sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
