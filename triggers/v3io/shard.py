"""One shard that this replica reads: where it is, and whether there is room for more."""

import asyncio
from dataclasses import dataclass, field

from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.key import PartitionKey


@dataclass(slots=True, eq=False)
class Shard:
    """`offset`: the next one that a read brings. `end`: where the shard ends, as far as reads have said."""

    key: PartitionKey
    offset: int
    end: int = 0
    location: str = ""
    """Of the next read; empty: it has to be asked for."""
    seek_count: int = 0
    is_absent: bool = False
    """It had no record when it was last looked at."""
    partition: AssignedPartition | None = None
    has_room: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None

    def seek(self, offset: int) -> None:
        """What is being read now is dropped."""
        self.offset, self.location = offset, ""
        self.seek_count += 1
