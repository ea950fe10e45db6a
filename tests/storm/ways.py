"""How the records of a storm may overtake and overlap each other: `ordering` and `maxConcurrency`."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from history import RECORDER, Entry, Partition, RecordId

if TYPE_CHECKING:
    from judge import Evidence

KEYS = 40
SECONDS = 0.1
"""A record takes, where several run at once."""
LONG_SECONDS, LONG_EVERY, OCCUPIED_SECONDS = 0.6, 50, 10
LONGER_STALL_SECONDS = 1.0
"""Three rebalances in a row wait for those, which are longer than where records follow each other."""
AT_ONCE = f"""
{RECORDER}
    OCCUPIED = FOLDER / f"occupied-{{REPLICA}}"

    async def handler(context, event):
        note("START", event)
        is_long = (event.offset + 7 * event.shard_id) % {LONG_EVERY} == 0
        seconds = {OCCUPIED_SECONDS} if OCCUPIED.exists() else {LONG_SECONDS} if is_long else {SECONDS}
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.05))
            note("TICK", event)
        note("END", event)
"""


@dataclass(frozen=True, slots=True)
class Way:
    """The default is a function.yaml's that says nothing."""

    ordering: str = "partition"
    at_once: int = 1
    allocation: str = "pool"
    protocol: str = "classic"
    keys: int = KEYS
    """Of a partition: a record's key is told by its offset."""

    @property
    def attributes(self) -> dict[str, object]:
        """Of the trigger."""
        allocation = {"workerAllocationMode": self.allocation, "groupProtocol": self.protocol}
        return allocation | {"ordering": self.ordering, "maxConcurrency": self.at_once}

    def together(self, workers: int, partitions: int) -> int:
        """How many records may be in handlers at a time."""
        hands = workers * self.at_once
        turns = {"partition": partitions, "key": partitions * self.keys}
        return min(hands, turns.get(self.ordering, hands))

    def turned(self, found: "Evidence") -> "Evidence":
        """The same for whoever judges order: each turn is a partition and a process of its own."""
        if self.ordering == "partition" and self.at_once == 1:
            return found
        pids: dict[tuple[int, int], int] = {}
        history = [self._turned(entry, pids) for entry in found.history]
        return replace(
            found,
            history=history,
            produced={self._record(it) for it in found.produced},
            failing={self._record(it) for it in found.failing},
            given_up={self._record(it): ns for it, ns in found.given_up.items()},
            alive_until={
                new: found.alive_until[pid] for (pid, _), new in pids.items() if pid in found.alive_until
            },
        )

    def _turned(self, entry: Entry, pids: dict[tuple[int, int], int]) -> Entry:
        _, turn = self.turn(entry.key, entry.offset)
        pid = pids.setdefault((entry.pid, turn), len(pids))
        return replace(entry, partition=turn, pid=pid)

    def _record(self, record: RecordId) -> RecordId:
        topic, partition, offset = record
        return (*self.turn((topic, partition), offset), offset)

    def turn(self, partition: Partition, offset: int) -> Partition:
        """What is in order within itself, as a partition is."""
        topic, number = partition
        if self.ordering == "key":
            return topic, number * self.keys + offset % self.keys
        return (topic, number) if self.ordering == "partition" else (topic, number << 40 | offset)


IN_ORDER = Way()
BY_BROKER = Way(protocol="consumer")
"""Its group's partitions are shared out by the broker: only those that move stop."""
WAYS = {
    "key": Way("key"),
    "none": Way("none"),
    "partition-50": Way("partition", 50),
    "key-50": Way("key", 50),
    "none-50": Way("none", 50),
}
