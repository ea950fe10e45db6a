"""`make storm`: the simulation with many seeds.

Dispatchers, workers' loops, acks and commits are real; time is virtual, and what goes wrong is drawn from the
seed: tests/simulation.

usage: simulation.py [--count SEEDS] [--seed N]; with a count of 1 it shows all that has happened
"""

import argparse
import random
import sys
import time

from root import ROOT

sys.path.append(str(ROOT / "tests" / "simulation"))

from world import simulate


def main() -> int:
    """0 where no promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="seeds")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="the first one")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began, starts, broken = time.monotonic(), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        history = simulate(seed)
        starts += history.starts
        if options.count == 1:
            for when, what, key, about in history.told:
                print(f"{when:.4f} {key} {what} {about}")
        if history.violations:
            broken += 1
            print(f"VIOLATION {history.violations[0]}; shown by make simulation SEED={seed}", flush=True)
    print(
        f"simulation: {options.count} repetitions, {starts} starts of handlers\n"
        f"violations {broken}, {time.monotonic() - began:.0f} s"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
