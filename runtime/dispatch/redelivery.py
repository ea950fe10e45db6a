"""Handled records that come again: they were nacked, not acked in time, or their worker has died.

Or a message that they have produced can't be written. docs/design/concurrency.md.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.failure_text import in_one_line, log_extra
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.settings.durations import format_duration
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.wire.outcomes import Nack

logger = logging.getLogger(__name__)

# A record that isn't acked fails up to two looks late: its time begins at the first look that sees it.
_MAX_LOOK_SECONDS = 1.0
# In the other states a record of the buffer, which redelivery would drop, is being decided on.
_MAY_BEGIN_ANEW = (PartitionState.ACTIVE, PartitionState.BACKOFF, PartitionState.PLANNING)


class Redelivery:
    """Brings handled records of one trigger back to their handlers, by a fetch of all open ones.

    A record that failed waits its backoff first, and ends as `onFailure` says once its attempts are spent.
    The others of its partition go on meanwhile: whoever acks explicitly has no order to lose.
    """

    def __init__(
        self, state: DispatcherState, failures: FailureHandler, resume: Callable[[Lane], None]
    ) -> None:
        """`resume` is called with a lane of which a record is to come again."""
        self._state = state
        self._failures = failures
        self._resume = resume
        # By lane id: when each failed record is to come again, by its first offset, on the loop's clock.
        self._due: dict[int, dict[int, float]] = {}
        self._waiters: dict[int, tuple[asyncio.Task[None], asyncio.Event]] = {}  # the event: more is due
        self._first_seen: dict[int, dict[int, float]] = {}  # by lane id: when each record began to wait
        self._deadline_watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch for records that are not acked within `ackDeadline`, if that is set."""
        if (deadline_seconds := self._state.policy.ack_deadline_seconds) is not None:
            self._deadline_watch = start_task(self._watch_deadlines(deadline_seconds), "ackDeadline")

    async def stop(self) -> None:
        """End all tasks. Idempotent."""
        tasks = [self._deadline_watch, *(task for task, _ in self._waiters.values())]
        await end_tasks(task for task in tasks if task is not None)

    # ---- why a record comes again

    def on_nack(self, partition: AssignedPartition, nack: Nack) -> None:
        """Fail the record that a handler has nacked; one that still runs once its handler has returned."""
        first = partition.acked_by(nack.offset)
        if first is not None and first in partition.awaiting_ack:
            self.fail(partition, first, nack.reason)
        elif first is not None and _is_in_flight(partition, first):
            partition.nacked[first] = nack.reason, 1
        elif not partition.ledger.is_settled(nack.offset):
            message = "a nack of %s offset %d is refused: it has not been handled"
            logger.warning(message, partition, nack.offset)

    def on_handled(self, partition: AssignedPartition, firsts: Iterable[int]) -> None:
        """Fail the records, which wait for their acks now, that were nacked before their handler returned."""
        for first in firsts:
            if (nacked := partition.nacked.pop(first, None)) is not None and first in partition.awaiting_ack:
                self.fail(partition, first, *nacked)

    def on_worker_died(self, worker_index: int) -> None:
        """Make orphans of the records that the worker had handled: whoever was to ack them is gone."""
        message = (
            "%s: of what worker %d had handled, %d records were not acked before it died: they come again"
        )
        for partition in list(self._state.partitions.values()):
            if partition.lane.state is PartitionState.REVOKED:
                continue
            if count := partition.awaiting_ack.orphan(worker_index):
                logger.warning(message, partition, worker_index, count)
                self._resume(partition.lane)

    def fail(self, partition: AssignedPartition, first: int, reason: str, among: int = 1) -> None:
        """Count a failed attempt of a handled record, in a call with `among` records that may be to blame."""
        end, due = partition.awaiting_ack.end_of(first), self._due.setdefault(partition.lane.id, {})
        if first in due or partition.awaiting_ack.is_orphan(first):
            return  # it is to come again already
        policy, state = self._state.policy.failure, self._state
        partition.failed.note_failure(
            first, reason, among, end if partition.lane.buffer.holds_ranges else None
        )
        failed = partition.failed[first]
        state.metrics.handled_failure.inc()
        of_how_many = f" of {policy.max_attempts}" if policy.max_attempts else ""
        message = "%s offset %d failed at attempt %d%s, after its handler had returned: %s"
        about = {**partition.key._asdict(), "offset": end - 1, "attempt": failed.failures}
        extra = log_extra(reason, is_known=True, **about)
        logger.error(
            message, partition, end - 1, failed.failures, of_how_many, in_one_line(reason), extra=extra
        )
        self._failures.judge(failed)
        wait_seconds = 0.0 if failed.is_refused else policy.wait_seconds(failed.failures)
        due[first] = asyncio.get_running_loop().time() + wait_seconds
        self._wait_for_due(partition)

    # ---- how it comes again

    def redeliver(self, partition: AssignedPartition) -> None:
        """Begin the partition anew at its lowest open offset, for its orphans, once that is possible.

        Possible when nothing of it is in flight, and no record waits for a decision of somebody else.
        """
        lane = partition.lane
        if lane.in_flight_count:
            if not lane.is_recalled and lane.worker_index is not None:
                self._state.workers[lane.worker_index].recall(lane)
        elif lane.state in _MAY_BEGIN_ANEW:
            offset = partition.ledger.committable
            if lane.buffer.holds_ranges or self._state.feed.refetch(partition, offset):
                partition.redeliver()
                self._forget_redelivered(partition)
                self._state.feed.on_room(partition)
            else:
                partition.awaiting_ack.has_orphans = False  # they wait for the next assignment

    def end(self, partition: AssignedPartition) -> None:
        """Forget a partition that is delivered no more: its commit carries the attempts."""
        lane_id = partition.lane.id
        self._first_seen.pop(lane_id, None)
        self._due.pop(lane_id, None)
        if (waiter := self._waiters.pop(lane_id, None)) is not None:
            waiter[0].cancel()

    # ---- inside

    def _forget_redelivered(self, partition: AssignedPartition) -> None:
        """Keep times only of what still waits for its ack: the rest is handled again, and may fail again."""
        lane_id, waiting = partition.lane.id, partition.awaiting_ack
        for times in (self._first_seen, self._due):
            if lane_id in times:
                times[lane_id] = {first: at for first, at in times[lane_id].items() if first in waiting}

    def _wait_for_due(self, partition: AssignedPartition) -> None:
        """Have a task bring the failed records again when they are due; one task for each partition."""
        task, is_more = self._waiters.get(partition.lane.id, (None, asyncio.Event()))
        is_more.set()
        if task is None or task.done():
            task = start_task(self._bring_again(partition, is_more), f"what was nacked of {partition}")
            self._waiters[partition.lane.id] = task, is_more

    async def _bring_again(self, partition: AssignedPartition, is_more: asyncio.Event) -> None:
        """Bring each failed record again when it is due, until none is left.

        Attempts are committed first: a record that kills its replica must not begin at attempt 1 for ever.
        """
        loop, lane_id = asyncio.get_running_loop(), partition.lane.id
        while self._due[lane_id]:
            is_more.clear()
            known = self._due[lane_id].copy()
            await self._failures.persist(partition)
            left_seconds = max(0.0, min(known.values()) - loop.time())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_seconds):  # wait_for may lose a cancellation
                    await is_more.wait()
            # Attempts are safe only if they were known before the commit. Some may have been due anew since.
            now, due = loop.time(), self._due[lane_id]
            self._abandon(
                [first for first, at in known.items() if at <= now and due.get(first) == at], partition
            )

    def _abandon(self, firsts: Iterable[int], partition: AssignedPartition) -> None:
        """Wait no longer for acks of these records: as orphans they come again."""
        for first in firsts:
            self._due[partition.lane.id].pop(first, None)
        abandoned = [first for first in firsts if partition.awaiting_ack.abandon(first)]
        if abandoned:
            self._resume(partition.lane)

    async def _watch_deadlines(self, deadline_seconds: float) -> None:
        while True:
            await asyncio.sleep(min(_MAX_LOOK_SECONDS, deadline_seconds / 4))
            for partition in list(self._state.partitions.values()):
                self._check_deadline(partition, deadline_seconds)

    def _check_deadline(self, partition: AssignedPartition, deadline_seconds: float) -> None:
        """Fail records that have waited too long for their acks, from when they were first seen here."""
        before, now = self._first_seen.get(partition.lane.id, {}), asyncio.get_running_loop().time()
        seen = {first: before.get(first, now) for first in partition.awaiting_ack}
        self._first_seen[partition.lane.id] = seen
        why = f"it was handled {format_duration(deadline_seconds)} ago and is not acked (ackDeadline)"
        for first, since in seen.items():
            if now - since >= deadline_seconds:
                self.fail(partition, first, why)


def _is_in_flight(partition: AssignedPartition, first: int) -> bool:
    """Whether the record is at a worker: open, and below all that waits, as acks go with order."""
    next_offset = partition.lane.next_offset
    waits = first in partition.awaiting_ack or (next_offset is not None and first >= next_offset)
    return partition.ledger.is_open(first) and not waits
