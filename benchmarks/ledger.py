"""What settling one record costs in the ledger, by how many are open: it must not grow with them.

In order, from the end, every second one first, and in any order, beside taking a number out of a set, in the
same run: far apart numbers cost more with any structure, because memory does.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence

from headrace.runtime.partitions.offsets.ledger import Ledger

ROUNDS = 5
OPEN = (1_000, 10_000, 100_000)


def ledger_ns(order: Sequence[int]) -> float:
    """Per record."""
    ledger = Ledger(0)
    ledger.add(0, len(order))
    settle = ledger.settle
    began = time.perf_counter_ns()
    for offset in order:
        settle(offset, offset + 1)
    took = time.perf_counter_ns() - began
    assert ledger.committable == len(order)
    return took / len(order)


def set_ns(order: Sequence[int]) -> float:
    """The same with a set, which knows neither runs nor what is lowest."""
    found = set(order)
    began = time.perf_counter_ns()
    for offset in order:
        found.discard(offset)
    return (time.perf_counter_ns() - began) / len(order)


def every_second_first(count: int) -> list[int]:
    """Then the others: each of them takes the lowest run."""
    return [*range(1, count, 2), *range(0, count, 2)]


def any_order(count: int) -> list[int]:
    """The same at each run."""
    return random.Random(count).sample(range(count), count)


def median_ns(measure: Callable[[Sequence[int]], float], order: Sequence[int]) -> float:
    """Of some rounds."""
    return statistics.median(measure(order) for _ in range(ROUNDS))


def main() -> None:
    """A table."""
    print(f"{'ns per settle':24}" + "".join(f"{count:>12,}" for count in OPEN) + " open")
    orders: dict[str, Callable[[int], Sequence[int]]] = {
        "in order": range,
        "from the end": lambda count: range(count - 1, -1, -1),
        "every second first": every_second_first,
        "in any order": any_order,
    }
    for name, order in orders.items():
        cells = [median_ns(ledger_ns, order(count)) for count in OPEN]
        print(f"{name:24}" + "".join(f"{ns:12,.0f}" for ns in cells))
    cells = [median_ns(set_ns, any_order(count)) for count in OPEN]
    print(f"{'a set, in any order':24}" + "".join(f"{ns:12,.0f}" for ns in cells))


main()
