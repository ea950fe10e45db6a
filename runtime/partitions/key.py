"""How a partition is named: topic and number, as people read them."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple


class PartitionKey(NamedTuple):
    """What all assignments of a partition share. Sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def describe_partitions(keys: Iterable[tuple[str, int]]) -> str:
    """`orders/0-3, orders/7`: consecutive numbers of a topic as one range; `none` where there are none."""
    return ", ".join(_ranges(sorted(keys))) or "none"


def _ranges(ordered: list[tuple[str, int]]) -> Iterator[str]:
    numbered = enumerate(ordered)
    for _, group in groupby(numbered, key=lambda item: (item[1][0], item[1][1] - item[0])):
        run = [key for _, key in group]
        (topic, first), (_, last) = run[0], run[-1]
        yield f"{topic}/{first}" if first == last else f"{topic}/{first}-{last}"
