"""Explicit acks of one trigger's partitions: what an accepted one changes for its workers and its feed."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.redelivery import Redelivery
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition, ack_through
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.records import Ack, Nack

logger = logging.getLogger(__name__)


class Acks:
    """Knows what this replica owns, and which of it is being delivered.

    Between the two lies the time in which a new owner reads what the last one committed: acks wait for that.
    """

    def __init__(
        self, policy: DeliveryPolicy, metrics: TriggerMetrics, end_of: Callable[[AssignedPartition], int]
    ) -> None:
        """`end_of` says where a partition ends, as far as is known."""
        self.owned: set[PartitionKey] = set()
        self._had: set[PartitionKey] = set()
        self._end_of = end_of
        self._is_cumulative = policy.is_cumulative
        self._metrics = metrics
        self._delivered: dict[tuple[str, int], AssignedPartition] = {}
        self._early: list[Ack] = []
        self._told: set[tuple[PartitionKey, str]] = set()

    def on_assigned(self, keys: Iterable[PartitionKey]) -> None:
        """These are ours; where they start isn't known yet."""
        self._own(keys)

    def on_revoked(self, keys: Iterable[PartitionKey] | None) -> None:
        """These, or all, are ours no longer."""
        gone = self.owned.copy() if keys is None else set(keys)
        self.owned -= gone
        for ack in self._early:
            if _key(ack) in gone:
                _refuse(ack, "the partition left before its start was known")
        self._early = [ack for ack in self._early if _key(ack) not in gone]

    def begin(self, partitions: Collection[AssignedPartition]) -> list[AssignedPartition]:
        """Their start is known. Those that were acked meanwhile are returned."""
        self._delivered |= {partition.key: partition for partition in partitions}
        self._own(partition.key for partition in partitions)
        early, self._early = self._early, []
        return [partition for ack in early if (partition := self.take(ack)) is not None]

    def end(self, partition: AssignedPartition) -> None:
        """It is delivered no more."""
        if self._delivered.get(partition.key) is partition:
            del self._delivered[partition.key]

    def has(self, said: Ack | Nack) -> bool:
        """Whether the partition that it is about is ours."""
        return (said.topic, said.partition) in self.owned

    def delivered(self, said: Nack) -> AssignedPartition | None:
        """The partition that it is about; None where nothing of that has been handed out here."""
        partition = self._delivered.get((said.topic, said.partition))
        return None if partition is None or self._is_outdated(said, partition) else partition

    def log_of(self, key: PartitionKey) -> str:
        """The stamp of its log; empty where nothing of it has been handed out here."""
        partition = self._delivered.get(key)
        return "" if partition is None else partition.log.stamp

    def has_had(self, key: PartitionKey) -> bool:
        """Whether it is ours, or was: an ack may cross the end of that on its way."""
        return key in self._had

    def take(self, ack: Ack) -> AssignedPartition | None:
        """Settle what it names, of a partition that is ours; the partition, where something came of it."""
        partition = self._delivered.get((ack.topic, ack.partition))
        if partition is None:
            self._early.append(ack)
            return None
        end = max(partition.ledger.position, partition.fetched_before)
        if ack.offset >= end:
            end = max(end, self._end_of(partition))
        is_outdated = self._is_outdated(ack, partition)
        if is_outdated or not 0 <= ack.first <= ack.offset < end:
            if ack.count > 1:
                return self._take_singly(ack)
            if not is_outdated:
                _refuse(ack, f"the partition ends at {end}")
            return None
        first = partition.acked_by(ack.offset)
        if ack.count > 1:
            is_alike = first == ack.offset and partition.acked_by(ack.first) == ack.first
            if not is_alike or partition.unwritten:
                return self._take_singly(ack)
            first = ack.first
        if first is None:
            _refuse(ack, "it lies inside a range that is open; a range is acked through its last offset")
            return None
        return partition if self._settle(partition, ack, first) else None

    def _settle(self, partition: AssignedPartition, ack: Ack, first: int) -> bool:
        """What it names, from `first` on; whether it may."""
        if ack.is_through or self._is_cumulative:
            ack_through(partition, first, ack.offset + 1)
        elif first in partition.unwritten:
            if not partition.unwritten.note_acked(first):
                _refuse(ack, "a message that its record has produced can't be written; it is delivered again")
                return False
        else:
            partition.on_acked(first, ack.offset + 1)
        self._metrics.acks.inc(ack.count)
        return True

    def _own(self, keys: Iterable[PartitionKey]) -> None:
        keys = tuple(keys)
        self.owned.update(keys)
        self._had.update(keys)

    def _is_outdated(self, said: Ack | Nack, partition: AssignedPartition) -> bool:
        """Another record has that offset in the log that is here now. Said once for each log."""
        if partition.log.has(said.log, said.offset):
            return False
        about = (partition.key, partition.log.stamp)
        if about not in self._told:
            self._told.add(about)
            logger.warning(
                "%s of %s offset %d is refused, as are others like it: the log was made anew or cut since"
                " that record was handed out, and another one has its offset now",
                "an ack" if isinstance(said, Ack) else "a nack",
                partition,
                said.offset,
            )
        return True

    def _take_singly(self, ack: Ack) -> AssignedPartition | None:
        """Some are refused, or some lie in a range."""
        taken = [self.take(single) for single in ack.singles()]
        return next(filter(None, taken), None)


def _key(ack: Ack) -> PartitionKey:
    return PartitionKey(ack.topic, ack.partition)


def _refuse(ack: Ack, why: str) -> None:
    logger.warning("an ack of %s/%d offset %d is refused: %s", ack.topic, ack.partition, ack.offset, why)


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
