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

    `ends` has the partitions whose checkpoint says more than an offset, which is judged by the log's end; all
    partitions, if acks may come ahead of a fetch.
    """

    checkpoints: Mapping[PartitionKey, Checkpoint]
    committed: Mapping[PartitionKey, Checkpoint]
    ends: Mapping[PartitionKey, int] = field(default_factory=dict)


class Stream(Protocol):
    """A source of partitions that a group shares out. Called on the processor's event loop.

    The kind renews the dispatcher's lease for as long as it is a member: without one, nothing is handed out.
    """

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        """Return where these partitions start. Asks until the source answers: it has to be known.

        Partitions that can't be read for now (nobody leads them) may be left out, to be asked for again; but
        not all of them. Raises errors that waiting can't mend.
        """

    async def position(self, key: PartitionKey) -> int:
        """Return the next offset that a fetch would bring."""

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Fetch from `offset` on."""

    def log_id(self, key: PartitionKey) -> str:
        """Return the id of the partition's log, as of its last `seek`; '' if its source has none."""

    def on_room(self, partition: AssignedPartition) -> None:
        """Begin, go on or stop fetching the partition: how many records it may hold has changed."""

    def on_started(self) -> None:
        """Note that partitions were assigned and are delivered now."""

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Stop fetching these partitions, which have left."""

    def end_of(self, key: PartitionKey) -> int:
        """Return where the partition ends, as far as fetches have said; 0 if they haven't."""

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Write a dead letter: return once it is safe, False if there is no record to write.

        `attempts`: how many deliveries have failed. Raises Exception if it isn't safe.
        """

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        """Write a message to the source, as dispatch.interface.Feed.produce does."""
