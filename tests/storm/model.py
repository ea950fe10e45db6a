"""`make storm`: the delivery model with many seeds. What becomes of every record, whatever fails in between.

Real ledgers, acks, commits and assignments; no processes, and no broker but a model of one.

usage: model.py [--count SEEDS] [--seed N]
"""

import argparse
import logging
import random
import sys
import time
from typing import Any

from aiokafka.errors import KafkaError
from delivery_model.machine import DeliveryModel
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test


def check(examples: int, steps: int, number: int | None = None) -> None:
    """Random histories of the model; with a seed, always the same ones."""
    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    machine: Any = DeliveryModel
    logging.disable()
    try:
        run_state_machine_as_test(seed(number)(machine) if number is not None else machine, settings=options)
    finally:
        logging.disable(logging.NOTSET)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="seeds")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--examples", type=int, default=50, help="histories per seed")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    for number in range(options.seed, options.seed + options.count):
        try:
            check(options.examples, options.steps, number)
        except (AssertionError, KafkaError):
            print(f"VIOLATION with --seed {number} --count 1")
            raise
    print(
        f"model: {options.count} repetitions, "
        f"{options.count * options.examples} histories of {options.steps} steps\n"
        f"violations 0, {time.monotonic() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
