"""Explicit acks of one trigger's partitions: accepted, kept until they can be, or refused."""

import logging
from collections.abc import Callable, Collection, Iterable

from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.redelivery import Redelivery
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.wire.outcomes import Ack, Nack

logger = logging.getLogger(__name__)


class PartitionAcks:
    """Decides which acks count, by the partitions that this replica owns, and what an accepted ack changes.

    A partition is owned from the moment that the group gives it, and delivered once its start is known.
    Between the two a new owner reads what the last one committed: acks that come then wait in `_early`.
    """

    def __init__(
        self,
        state: DispatcherState,
        failures: FailureHandler,
        redelivery: Redelivery,
        resume: Callable[[Lane], None],
    ) -> None:
        """`resume` is called with a lane that may go on, as an ack that it waited for has come."""
        self._state = state
        self._is_cumulative = state.policy.is_cumulative  # looked up for each ack
        self._failures = failures
        self._redelivery = redelivery
        self._resume = resume
        self.owned: set[PartitionKey] = set()
        """Partitions that this replica has now, by this trigger."""
        self._ever_owned: set[PartitionKey] = set()
        self._delivered: dict[tuple[str, int], AssignedPartition] = {}
        self._early: list[Ack] = []
        self._warned_logs: set[tuple[PartitionKey, str]] = set()  # one warning for each log of a partition

    # ---- which partitions are here

    @property
    def takes_acks(self) -> bool:
        """Whether `explicitAckMode` allows acks."""
        return self._state.policy.ack_mode.is_explicit

    def on_assigned(self, keys: Iterable[PartitionKey]) -> None:
        """Take acks for these partitions from now on; the acks wait until `begin`."""
        self._own(keys)

    def begin(self, partitions: Collection[AssignedPartition]) -> None:
        """Deliver these partitions, whose start is known, and settle what was acked meanwhile."""
        self._delivered |= {partition.key: partition for partition in partitions}
        self._own(partition.key for partition in partitions)
        early, self._early = self._early, []
        for partition in [it for ack in early if (it := self.settle(ack)) is not None]:
            self._on_accepted(partition)

    def end(self, partition: AssignedPartition) -> None:
        """Deliver the partition no more, unless a newer object has replaced this one already."""
        if self._delivered.get(partition.key) is partition:
            del self._delivered[partition.key]

    def on_revoked(self, keys: Iterable[PartitionKey] | None) -> None:
        """Refuse acks for these partitions (None: all), until they are assigned again."""
        gone = self.owned.copy() if keys is None else set(keys)
        self.owned -= gone
        for ack in self._early:
            if _key(ack) in gone:
                _refuse(ack, "the partition left before its start was known")
        self._early = [ack for ack in self._early if _key(ack) not in gone]

    def has(self, said: Ack | Nack) -> bool:
        """Whether the partition that an ack or nack names is owned now."""
        return (said.topic, said.partition) in self.owned

    def has_had(self, key: PartitionKey) -> bool:
        """Whether the partition is, or was, owned: an ack may be on its way while the partition leaves."""
        return key in self._ever_owned

    def log_of(self, key: PartitionKey) -> str:
        """Return the stamp of the partition's log; '' if nothing of it has been handed out here."""
        partition = self._delivered.get(key)
        return "" if partition is None else partition.log.stamp

    # ---- what workers say

    def take(self, said: Ack | Nack) -> bool:
        """Decide on an ack or nack from any worker of the function; False if its partition isn't owned."""
        if not self.has(said):
            return False
        if isinstance(said, Nack):
            partition = self._delivered.get((said.topic, said.partition))
            if partition is not None and not self._is_outdated(said, partition):
                self._redelivery.on_nack(partition, said)
        elif (partition := self.settle(said)) is not None:
            self._recall_acked(partition.lane, said)
            self._on_accepted(partition)
        return True

    def settle(self, ack: Ack) -> AssignedPartition | None:
        """Settle what the ack names, if it counts; return the partition if anything was settled."""
        partition = self._delivered.get((ack.topic, ack.partition))
        if partition is None:
            self._early.append(ack)
            return None
        end = max(partition.ledger.position, partition.fetched_before)
        if ack.offset >= end:
            # Acks that somebody has kept over a restart may come ahead of the fetch: up to the log's end.
            end = max(end, self._state.feed.end_of(partition))
        is_outdated = self._is_outdated(ack, partition)
        if is_outdated or not 0 <= ack.first <= ack.offset < end:
            # Of several acks that were joined into one, some may count.
            if ack.count > 1:
                return self._settle_singly(ack)
            if not is_outdated:
                _refuse(ack, f"the partition ends at {end}")
            return None
        first = partition.acked_by(ack.offset)
        if ack.count > 1:
            is_alike = first == ack.offset and partition.acked_by(ack.first) == ack.first
            if not is_alike or partition.pending.rejected:
                return self._settle_singly(ack)
            first = ack.first
        if first is None:
            _refuse(ack, "it lies inside a range that is open; a range is acked through its last offset")
            return None
        return partition if self._is_settled(partition, ack, first) else None

    def _settle_singly(self, ack: Ack) -> AssignedPartition | None:
        """Settle one by one the acks that were joined into this one, as they don't all mean the same."""
        settled = [self.settle(single) for single in ack.singles()]
        return next(filter(None, settled), None)

    def _is_settled(self, partition: AssignedPartition, ack: Ack, first: int) -> bool:
        """Settle the record or range from `first` to the ack's offset; return whether the ack counts."""
        if ack.is_through or self._is_cumulative:
            partition.ack_through(first, ack.offset + 1)
        elif first in partition.pending.rejected:
            if not partition.pending.note_acked(first):
                _refuse(ack, "a message that its record has produced can't be written; it is delivered again")
                return False
        else:
            partition.on_acked(first, ack.offset + 1)
        self._state.metrics.acks.inc(ack.count)
        return True

    def _is_outdated(self, said: Ack | Nack, partition: AssignedPartition) -> bool:
        """Whether another record has that offset in the log that is here now. Warns once for each log."""
        if partition.log.has(said.log, said.offset):
            return False
        about = (partition.key, partition.log.stamp)
        if about not in self._warned_logs:
            self._warned_logs.add(about)
            logger.warning(
                "%s of %s offset %d is refused, as are others like it: the log was made anew or cut since"
                " that record was handed out, and another one has its offset now",
                "an ack" if isinstance(said, Ack) else "a nack",
                partition,
                said.offset,
            )
        return True

    def _on_accepted(self, partition: AssignedPartition) -> None:
        """Let the partition go on, if it has waited for this ack."""
        state, lane = self._state, partition.lane
        state.changed.set()
        if lane.state.waits_for_a_record and not partition.has_failed_waiting:
            self._failures.retry(lane)
        elif not lane.in_flight_count and state.offer(lane):
            self._resume(lane)  # it had waited for this ack
        state.feed.on_room(partition)

    def _recall_acked(self, lane: Lane, ack: Ack) -> None:
        """Recall acked records that wait in a worker: they are dropped here, not handled."""
        if lane.in_flight_count and not lane.is_recalled and lane.worker_index is not None:
            worker = self._state.workers[lane.worker_index]
            first = 0 if ack.is_through or self._is_cumulative else ack.first
            if worker.has_waiting(lane, first, ack.offset + 1):
                worker.recall(lane)

    def _own(self, keys: Iterable[PartitionKey]) -> None:
        keys = tuple(keys)
        self.owned.update(keys)
        self._ever_owned.update(keys)

    # ---- this trigger's own workers, for the router

    def send_to_workers(self, frame: bytes) -> None:
        """Send a frame to all workers that have a process."""
        for worker in self._state.workers:
            worker.sender.send_frame(frame)

    def sync_workers(self) -> None:
        """Take in what the trigger's own workers have said and acked by now."""
        for worker in self._state.workers:
            worker.sync_progress()


def _key(ack: Ack) -> PartitionKey:
    return PartitionKey(ack.topic, ack.partition)


def _refuse(ack: Ack, why: str) -> None:
    logger.warning("an ack of %s/%d offset %d is refused: %s", ack.topic, ack.partition, ack.offset, why)
