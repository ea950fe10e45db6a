"""Explicit acks of one trigger's partitions: what an accepted one changes for its workers and its feed."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.acks.owned import Acks
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.redelivery import Redelivery
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.records import Ack, Nack

logger = logging.getLogger(__name__)

# Of the others, the record that waits in the buffer is still needed.
_MAY_BEGIN_ANEW = (PartitionState.ACTIVE, PartitionState.BACKOFF, PartitionState.PLANNING)


class PartitionAcks:
    """Keeps router.AckTarget for one dispatcher."""

    def __init__(
        self,
        shared: DispatcherState,
        router: AckRouter,
        failures: FailureHandler,
        resume: Callable[[Lane], None],
    ) -> None:
        """`resume`: a lane may go on."""
        self._shared = shared
        self._router = router
        self._retry = failures.retry
        self._resume = resume
        self.nacks = Redelivery(shared, failures, resume)
        self._acks = Acks(shared.policy, shared.metrics, self._end_of)

    @property
    def takes_acks(self) -> bool:
        """Whether explicitAckMode allows them."""
        return self._shared.policy.ack_mode.is_explicit

    @property
    def owned(self) -> Collection[PartitionKey]:
        """What is ours."""
        return self._acks.owned

    def log_of(self, key: PartitionKey) -> str:
        """Of what is delivered here."""
        return self._acks.log_of(key)

    def has_had(self, key: PartitionKey) -> bool:
        """Whether it is ours, or was."""
        return self._acks.has_had(key)

    def on_assigned(self, keys: Iterable[PartitionKey]) -> None:
        """These are ours; where they start isn't known yet."""
        self._acks.on_assigned(keys)

    def on_revoked(self, keys: Iterable[PartitionKey] | None) -> None:
        """These, or all, are ours no longer."""
        self._acks.on_revoked(keys)

    def begin(self, partitions: Sequence[AssignedPartition]) -> None:
        """Their start is known."""
        for partition in self._acks.begin(partitions):
            self._on_accepted(partition)

    def end(self, partition: AssignedPartition) -> None:
        """It is delivered no more."""
        self._acks.end(partition)
        self.nacks.end(partition)

    def take(self, said: Ack | Nack) -> bool:
        """Decide on what any worker of the function says of a record, if its partition is ours."""
        if not self._acks.has(said):
            return False
        if isinstance(said, Nack):
            if (partition := self._acks.delivered(said)) is not None:
                self.nacks.take(partition, said)
        else:
            self._take_ack(said)
        return True

    def _take_ack(self, ack: Ack) -> None:
        if (partition := self._acks.take(ack)) is not None:
            self._recall_acked(partition.lane, ack)
            self._on_accepted(partition)

    def route(self, said: Ack | Nack) -> None:
        """One of its workers acked or nacked, of whichever trigger."""
        self._router.route(said, self)

    def owned_frame(self) -> bytes:
        """Which partitions its workers may ack here."""
        return self._router.owned_frame(self)

    def on_died(self, worker_index: int) -> None:
        """A worker is gone, and with it who was to ack what it had handled: that comes again."""
        message = (
            "%s: of what worker %d had handled, %d records were not acked before it died: they come again"
        )
        for partition in list(self._shared.partitions.values()):
            if partition.lane.state is PartitionState.REVOKED:
                continue
            if count := partition.unacked.orphan(worker_index):
                logger.warning(message, partition, worker_index, count)
                self._resume(partition.lane)

    def redeliver(self, partition: AssignedPartition) -> None:
        """Orphans of it: once nothing is in flight, and no record holds it up that others must decide on."""
        lane = partition.lane
        if lane.in_flight_count:
            if not lane.is_recalled and lane.worker_index is not None:
                self._shared.workers[lane.worker_index].recall(lane)
        elif lane.state in _MAY_BEGIN_ANEW:
            offset = partition.ledger.committable
            if lane.buffer.holds_ranges or self._shared.feed.refetch(partition, offset):
                partition.redeliver()
                self.nacks.begin_anew(partition)
                self._shared.feed.on_room(partition)
            else:
                partition.unacked.has_orphans = False  # they wait for the next assignment

    def send_to_workers(self, frame: bytes) -> None:
        """To all that have a process."""
        for worker in self._shared.workers:
            worker.outbox.send_frame(frame)

    def sync_workers(self) -> None:
        """Take in what its own workers have said and acked by now."""
        for worker in self._shared.workers:
            worker.sync_progress()

    def _end_of(self, partition: AssignedPartition) -> int:
        return self._shared.feed.end_of(partition)

    def _on_accepted(self, partition: AssignedPartition) -> None:
        shared, lane = self._shared, partition.lane
        shared.news.set()
        if lane.state.waits_for_a_record and not lane.has_failed_waiting:
            self._retry(lane)
        elif not lane.in_flight_count and shared.offer(lane):
            self._resume(lane)  # it had waited for this ack
        shared.feed.on_room(partition)

    def _recall_acked(self, lane: Lane, ack: Ack) -> None:
        """What is acked and waits in a worker comes back, and is not handed out again."""
        if lane.in_flight_count and not lane.is_recalled and lane.worker_index is not None:
            worker = self._shared.workers[lane.worker_index]
            first = 0 if ack.is_through or self._shared.policy.is_cumulative else ack.first
            if worker.has_waiting(lane, first, ack.offset + 1):
                worker.recall(lane)
