"""Between a trigger and its dispatcher: what each asks of the other, on the processor's event loop."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.partitions.flow_control import is_out_of_order
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.pending_produces import DeliveryCallback, DeliveryReport
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.produce import Message
from headrace.runtime.wire.records import WireRecord

NOWHERE = "its trigger has no brokers: name one of the function's outputs"


class Feed(Protocol):
    """What a dispatcher asks of who feeds it partitions: kept by a trigger."""

    def on_room(self, partition: AssignedPartition) -> None:
        """How much of it may be fetched has changed."""

    def end_of(self, partition: AssignedPartition) -> int:
        """The partition's end as far as it is known: no record at or above it was ever seen."""

    def limit_of(self, partition: AssignedPartition) -> str:
        """What keeps more of it from being handed out before some is settled; empty where nothing does."""

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """Commit their state now; whether what has to survive us is safe. Bounded in time, doesn't raise."""

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Return once it is safe, False where there is no record to write.

        Raises Exception where it isn't safe.
        """

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        """Have it written, and `done` called, later, when it is or can't be for good.

        Before that it may be called, more than once, to say that it `waits`: nothing can be written there.
        """

    def refetch(self, partition: AssignedPartition, offset: int) -> bool:
        """Let the next records that are added be those from `offset` on, which were added before.

        Whether that can be, at once. Where it can't, they stay open until the next assignment.
        """

    def retry_unreadable(self, partition: AssignedPartition) -> None:
        """Fetch the record once more that can't be read, at which the partition is cut off."""

    def skip_unreadable(self, partition: AssignedPartition) -> None:
        """Go on after that record."""


class Output(Protocol):
    """Where messages go that name it: an entry of spec.outputs, for all triggers of its function."""

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        """As Feed says. Connects when there is something to write; what is away is waited for, visibly."""

    def problems(self) -> list[str]:
        """Why nothing can be written now, one line each, as far as it has been tried."""

    async def close(self) -> None:
        """Nobody waits for anything any more. Idempotent, done within seconds."""


class NoFeed:
    """Keeps Feed where there is nothing behind a dispatcher: nothing survives, all goes well."""

    def on_room(self, partition: AssignedPartition) -> None:
        """Nobody fetches."""

    def end_of(self, partition: AssignedPartition) -> int:
        """What was added."""
        return partition.ledger.position

    def limit_of(self, partition: AssignedPartition) -> str:
        """Its only one."""
        return "capacity" if partition.waits_for_acks or is_out_of_order(partition) else ""

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """At once."""
        return True

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Nowhere."""
        return True

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        """There is nobody to send it to."""
        asyncio.get_running_loop().call_soon(done, DeliveryReport(failure=NOWHERE))

    def refetch(self, partition: AssignedPartition, offset: int) -> bool:
        """From nowhere."""
        return False

    def retry_unreadable(self, partition: AssignedPartition) -> None:
        """Nothing is unreadable."""

    def skip_unreadable(self, partition: AssignedPartition) -> None:
        """Nothing is."""


class Dispatch(Protocol):
    """What a trigger asks of its dispatcher. Nothing here blocks; coroutines say how long they take.

    Partitions come and go: `on_assigned` (they are ours), `begin` (their start is known), `revoke` (nothing
    of them is in flight any more), `on_revoked` (acks for them are refused). Each names only those that move.
    Lanes without a partition are handed in by `submit`.
    """

    @property
    def policy(self) -> DeliveryPolicy:
        """What the trigger's `delivery` has made of its settings, with the function's limits."""

    @property
    def lease(self) -> Lease:
        """While it is over, nothing is handed out. The trigger begins, renews and lifts it, or leaves it."""

    @property
    def partitions(self) -> Mapping[int, AssignedPartition]:
        """Those that began and were not revoked, by the id of their lane."""

    @property
    def worker_count(self) -> int:
        """Processes that run handlers, of which some may be starting."""

    @property
    def seats(self) -> int:
        """How many records may be in handlers at once: of a worker that is starting, one."""

    def worker_of(self, key: PartitionKey) -> int | None:
        """The one worker that gets this partition's records, None where any may."""

    def connect(self, feed: Feed) -> None:
        """Whom to ask about partitions: once, before the first one."""

    def on_assigned(self, keys: Iterable[PartitionKey]) -> None:
        """These are ours now: acks for them are taken, and wait until they begin."""

    def begin(self, partitions: Sequence[AssignedPartition]) -> None:
        """Deliver these, besides those that are here: their start is known."""

    def restart(self, partition: AssignedPartition) -> None:
        """A new object for a partition that was revoked alone; it keeps its place."""

    def add(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Records were fetched. `dispatch` follows once all partitions of a fetch are added."""

    def extend(self, partition: AssignedPartition, end: int) -> None:
        """The log of a partition whose records aren't fetched ends at `end` now. `dispatch` follows."""

    def submit(self, lane: Lane) -> None:
        """Hand out the records of a lane that has no partition, and is never refused. `dispatch` follows.

        Not with batches, whose plans are partitions'. `forget` follows when it is over.
        """

    def forget(self, lane: Lane) -> None:
        """Nothing of it is in flight, and nothing of it comes again: workers needn't know it any more."""

    def take_reply(self, lane: Lane, byte_count: int) -> None:
        """So many bytes of its answer's parts were taken in all, or wire.reply.NOBODY takes more."""

    def recall(self, lane: Lane, *, cancels: bool = False) -> None:
        """What hasn't started of it comes back; what runs goes on, unless `cancels` and it lets itself be."""

    def dispatch(self) -> None:
        """Give every worker that has room its next records."""

    async def revoke(
        self, partitions: Collection[AssignedPartition], wait_seconds: float, late_ack_seconds: float = 0
    ) -> None:
        """Take these away for good; done when nothing of them is in flight, in both times and a moment."""

    def hurry(self, wait_seconds: float, late_ack_seconds: float) -> AbstractContextManager[None]:
        """Within it, what revokes wait for gets no more than this from now, whatever they were to give it."""

    def on_revoked(self, keys: Iterable[PartitionKey] | None) -> None:
        """These, or all, are no longer ours: acks for them are refused."""

    def cut_off(self, partition: AssignedPartition, why: str) -> None:
        """What follows in it can't be fetched; what was fetched is handed out."""

    def sync_progress(self) -> None:
        """Settle what workers have finished or acked but not reported yet: before a commit."""
