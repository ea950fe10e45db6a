"""A source that has its records still, for a bench that has no broker."""

import asyncio

from failure_bench import Journal
from worker_bench import Bench, records

from headrace.runtime.partitions.partition import AssignedPartition


class Log(Journal):
    """A source that has its records still: those below `end` of any partition."""

    def __init__(self, b: Bench) -> None:
        super().__init__()
        self._bench = b
        self.asked: list[int] = []
        b.dispatcher.connect(self)

    def refetch(self, partition: AssignedPartition, offset: int) -> bool:
        self.asked.append(offset)
        count = partition.ledger.position - offset
        asyncio.get_running_loop().call_soon(self._bench.feed, partition, records(offset, count))
        return True
