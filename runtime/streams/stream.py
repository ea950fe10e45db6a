"""The contract between an assignment and the kind of trigger whose partitions it holds."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.wire.produce import DeliveryCallback, Message
from headrace.runtime.wire.records import WireRecord


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """Checkpoints to start from, checkpoints that the group has committed, and log ends, each by partition.

    `ends` has the partitions whose checkpoint says more than an offset, to judge it by; with acks that may
    come ahead of a fetch it has all.
    """

    checkpoints: Mapping[PartitionKey, Checkpoint]
    committed: Mapping[PartitionKey, Checkpoint]
    ends: Mapping[PartitionKey, int] = field(default_factory=dict)


class Stream(Protocol):
    """A source of partitions that a group shares out. Called on the processor's event loop.

    The kind renews the dispatcher's lease for as long as it is a member: without one, nothing is handed out.
    """

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        """Return where these start. Asks until the source answers: nothing may be delivered without.

        What can't be read for now (nobody leads it) may be left out, to be asked for again; not all of it.
        Raises what waiting can't mend.
        """

    async def position(self, key: PartitionKey) -> int:
        """Return the next offset that a fetch would bring."""

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Fetch from `offset` on."""

    def log_id(self, key: PartitionKey) -> str:
        """Return the id of the log that was sought last, another one once it was made anew; '': none."""

    def on_room(self, partition: AssignedPartition) -> None:
        """Fetch the partition or not, and how much at most: how much it may hold has changed."""

    def on_started(self) -> None:
        """Note that partitions were assigned and are delivered now."""

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these no more."""

    def end_of(self, key: PartitionKey) -> int:
        """Return where the partition ends, as far as fetches have said; 0 where they haven't."""

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Write a dead letter: return once it is safe, False where there is no record to write.

        `attempts`: how many deliveries have failed. Raises Exception where it isn't safe.
        """

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        """Write a message to the source, as dispatch.interface.Feed.produce does."""
