"""The contract between a trigger and its dispatcher: all calls are made on the processor's event loop."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.produce import DeliveryCallback, DeliveryReport, Message
from headrace.runtime.wire.records import WireRecord

NOWHERE = "its trigger has no brokers: name one of the function's outputs"


class Feed:
    """The source of a dispatcher's partitions: a trigger derives from it. No method may block.

    The methods that a trigger doesn't write are those of a source without offsets: all is safe, and nothing
    comes again.
    """

    def on_room(self, partition: AssignedPartition) -> None:
        """Fetch more of the partition, or less: `partition.to_fetch`, the number of records, has changed."""

    def end_of(self, partition: AssignedPartition) -> int:
        """Return the partition's end as far as it is known: no record at or above it was ever seen."""
        return partition.ledger.position

    def limit_of(self, partition: AssignedPartition) -> str:
        """Return what keeps more records from being handed out before some are settled, for people; or ''."""
        return "capacity" if partition.waits_for_acks or partition.is_out_of_order else ""

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """Commit the state of these partitions now; return whether it is safe if this process dies.

        Bounded in time. Doesn't raise.
        """
        return True

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Write a dead letter: return once it is safe, False if there is no record to write.

        `attempts`: how many deliveries have failed. Raises Exception if it isn't safe.
        """
        return True

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        """Start to write a message. `done` is called later, when it is written or can't be for good.

        Before that it may be called, also more than once, with `not_yet_written`: it waits to be written.
        """
        asyncio.get_running_loop().call_soon(done, DeliveryReport(failure=NOWHERE))

    def refetch(self, partition: AssignedPartition, offset: int) -> bool:
        """Add the records from `offset` on next, which were added before; return whether that can be.

        If it can't, they stay open until the next assignment.
        """
        return False

    def retry_unreadable(self, partition: AssignedPartition) -> None:
        """Fetch the unreadable record, at which the partition is cut off, once more."""

    def skip_unreadable(self, partition: AssignedPartition) -> None:
        """Go on after the unreadable record, at which the partition is cut off."""


class Output(Protocol):
    """An entry of spec.outputs: all triggers of a function write the messages to it that name it."""

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        """Start to write a message, and call `done` as Feed.produce does.

        Connects when there is something to write. A target that is away is waited for, visibly.
        """

    def problems(self) -> list[str]:
        """Return why nothing can be written now, one line each, as far as that has been tried."""

    async def close(self) -> None:
        """Disconnect: nobody waits for messages any more. Idempotent, done within seconds."""


class Dispatch(Protocol):
    """The runtime's side of a trigger: delivers its partitions. No method blocks.

    A partition's calls come in this order: `on_assigned` (the group has given it), `begin` (its start is
    known), `revoke` (nothing of it is in flight any more), `on_revoked` (acks for it are refused). Each call
    names only the partitions that move. Lanes without a partition are handed in by `submit`.
    """

    @property
    def policy(self) -> DeliveryPolicy:
        """The trigger's settings as its `delivery` has made a policy of them, with the function's limits."""

    @property
    def lease(self) -> Lease:
        """The lease: the trigger begins, renews and lifts it, if it has one. Once over, nothing goes out."""

    @property
    def partitions(self) -> Mapping[int, AssignedPartition]:
        """The partitions that began and were not revoked, by the id of their lane."""

    @property
    def worker_count(self) -> int:
        """The number of processes that run handlers, of which some may be starting."""

    @property
    def seats(self) -> int:
        """The number of records that may be in handlers at once: of a worker that is starting, one."""

    def worker_of(self, key: PartitionKey) -> int | None:
        """Return the index of the one worker that gets this partition's records; None if any may."""

    def connect(self, feed: Feed) -> None:
        """Ask `feed` about partitions. Called once, before the first one."""

    def on_assigned(self, keys: Iterable[PartitionKey]) -> None:
        """Take acks for these partitions from now on; the acks wait until the partitions begin."""

    def begin(self, partitions: Sequence[AssignedPartition]) -> None:
        """Deliver these partitions, whose start is known, besides those that are here."""

    def restart(self, partition: AssignedPartition) -> None:
        """Deliver a new object for a partition that was revoked alone; it keeps its worker."""

    def add(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> int:
        """Add records that were fetched. `dispatch` follows once all partitions of a fetch are added.

        Returns about how many bytes each of them takes while it waits; 0 if none has to wait, as all were
        acked before.
        """

    def extend(self, partition: AssignedPartition, end: int) -> None:
        """Add the offsets up to `end`, of a partition whose records aren't fetched. `dispatch` follows."""

    def submit(self, lane: Lane) -> None:
        """Hand out the records of a lane that has no partition, and is never refused. `dispatch` follows.

        Not with batches, whose plans are partitions'. `forget` follows when it is over.
        """

    def forget(self, lane: Lane) -> None:
        """Have workers forget a lane that is over: nothing of it is in flight, and nothing comes again."""

    def take_reply(self, lane: Lane, byte_count: int) -> None:
        """Tell the lane's worker how many bytes of its answer's parts were taken in all.

        wire.reply.NOBODY as the count: no more are taken.
        """

    def recall(self, lane: Lane, *, cancels: bool = False) -> None:
        """Have a lane's records back that haven't started; with `cancels`, also cancel the one that runs."""

    def dispatch(self) -> None:
        """Give every worker that has room its next records."""

    async def revoke(
        self, partitions: Collection[AssignedPartition], wait_seconds: float, late_ack_seconds: float = 0
    ) -> None:
        """Take these partitions away for good. Returns when nothing of them is in flight.

        Handlers get `wait_seconds`, then their workers are killed; after that, acks of handled records are
        waited for, for at most `late_ack_seconds`.
        """

    def hurry(self, wait_seconds: float, late_ack_seconds: float) -> AbstractContextManager[None]:
        """Give revokes under way, within this context, no more than so much time from now."""

    def on_revoked(self, keys: Iterable[PartitionKey] | None) -> None:
        """Refuse acks for these partitions (None: all), until they are assigned again."""

    def cut_off(self, partition: AssignedPartition, why: str) -> None:
        """Halt a partition behind its fetched records, which are handed out; the next one is unreadable."""

    def sync_progress(self) -> None:
        """Settle what workers have finished or acked but not reported yet: before a commit."""
