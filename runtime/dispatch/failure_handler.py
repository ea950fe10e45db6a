"""Failed records: their lane waits and tries again, or ends them as `onFailure.then` says."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.failed_records import FailedRecord
from headrace.runtime.partitions.offsets.failure_text import log_extra
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import stuck_at, stuck_lane
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.undecoded import UndecodableError

logger = logging.getLogger(__name__)

# Between two tries at a commit, or at a dead letter if the policy has no wait.
_RETRY_SECONDS = 1.0


class FailureHandler:
    """Decides what follows a failure. Each lane that waits for something has one task.

    A task owns its lane's state until that is changed from outside (a revoke, an operator, an ack of the
    record): then the task is cancelled, and leaves nothing behind.
    """

    def __init__(self, state: DispatcherState, resume: Callable[[Lane], None]) -> None:
        """`resume` is called with a lane that may be handed out again."""
        self._state = state
        self._policy = state.policy.failure
        self._metrics = state.metrics
        self._resume = resume
        self._tasks: dict[PartitionLane, asyncio.Task[None]] = {}

    def begin(self, partition: AssignedPartition) -> None:
        """Judge the records that had failed under the partition's last owner, as its assignment begins.

        A record that has spent its attempts gets one more, alone, if `then` is halt. Otherwise it ends
        without one, as it would have under its last owner; but not what failed in a batch or a range, as it
        isn't known which record of that is bad.
        """
        is_alone = self._state.policy.batch is None

        def judge(offset: int, failed: FailedRecord) -> None:
            if self._policy.is_spent(failed.failures):
                failed.batch_limit = failed.span_from(offset)
                failed.is_refused = is_alone and self._policy.then != "halt"

        partition.failed.judge_all(judge)

    def after_failure(self, partition: AssignedPartition, lane: PartitionLane) -> None:
        """Decide on the records that failed: all are back, and nothing of their lane is in flight."""
        waiting: list[FailedRecord] = []
        # A record before the one that was waited for may have failed after all, by a message that couldn't be
        # written: that one is decided on first.
        self._stop(lane)
        lane.is_undecided = False
        for offset in lane.failed_now:
            if (record := partition.failed.of(offset)) is None:
                continue  # acked meanwhile
            if self.judge(record):
                # It need not come again as the batch that it was: it goes with fewer others from now on.
                partition.plan.drop_started()
            if not record.is_refused:
                waiting.append(record)
        if waiting:
            lane.become(PartitionState.BACKOFF)
            self._start(lane, self._back_off(partition, lane, waiting))
        elif lane.is_head_refused:
            self.refuse(partition, lane)
        else:
            self._go_on(lane)

    def judge(self, record: FailedRecord) -> bool:
        """Mark a record that has spent its attempts to go with fewer others, or never; return whether it has.

        Half as many others each time: so the one bad record of a batch is found, and fails by itself.
        """
        is_spent = self._policy.is_spent(record.failures)
        if is_spent:
            record.batch_limit = max(record.among // 2, 1)
            record.is_refused = record.among == 1
        return is_spent

    def act(self, action: Literal["retry", "skip"], partition: AssignedPartition) -> str:
        """Retry or skip, for an operator, the record at which a partition is stuck; return what was done."""
        offset, is_retry, lane = stuck_at(partition), action == "retry", stuck_lane(partition)
        if lane is None:
            feed = self._state.feed
            (feed.retry_unreadable if is_retry else feed.skip_unreadable)(partition)
            return f"{partition}: offset {offset} is {'fetched once more' if is_retry else 'skipped'}"
        if is_retry and partition.failed.is_refused(offset):
            failed = partition.failed[offset]
            failed.is_refused = not failed.failures  # too large or unreadable: that does not change
            self.retry(lane)
            if failed.is_refused:
                return f"{partition}: offset {offset} is not delivered: {failed.reason}"
            return f"{partition}: offset {offset} is delivered once more"
        if is_retry:
            self.retry(lane)
        else:
            self._skip(partition, lane)
        return f"{partition}: offset {offset} is {'delivered once more' if is_retry else 'skipped'}"

    def refuse(self, partition: AssignedPartition, lane: PartitionLane) -> None:
        """End the lane's next record, which must not be delivered, as `onFailure` says."""
        record = lane.buffer.head
        assert record is not None
        lane.failed_now = [record.offset]
        self._end(partition, lane, record, partition.failed[record.offset])

    def retry(self, lane: PartitionLane) -> None:
        """Deliver the record that the lane waits with once more, now."""
        self._metrics.retries.inc()
        self._stop(lane)
        self._go_on(lane)

    def forget(self, partition: AssignedPartition) -> None:
        """End the waits of a partition that is revoked.

        But for a dead letter on its way, for which the revoke waits: the next owner would write it again.
        """
        for lane in list(self._tasks):
            if lane.whole is partition.lane and lane.id not in self._state.dead_letter_writes:
                self._stop(lane)

    async def stop(self) -> None:
        """End all waits. Idempotent."""
        await end_tasks(self._tasks.values())

    async def persist(self, partition: AssignedPartition) -> None:
        """Return once the partition's attempts are committed, or it is revoked: its last commit has them."""
        while not await self._state.feed.commit([partition]):
            if partition.lane.state is PartitionState.REVOKED:
                return
            await asyncio.sleep(_RETRY_SECONDS)

    # ---- inside

    async def _back_off(
        self, partition: AssignedPartition, lane: PartitionLane, failed: list[FailedRecord]
    ) -> None:
        waits = [
            self._policy.wait_seconds(t.failures) for t in failed if not self._policy.is_spent(t.failures)
        ]
        wait = max(waits, default=0.0)
        logger.info("%s is delivered again in %.1f s", partition, wait)
        # Committed before the record runs: one that kills its replica must not begin at attempt 1 for ever.
        await asyncio.gather(self.persist(partition), asyncio.sleep(wait))
        self._metrics.retries.inc(len(failed))
        self._go_on(lane)

    def _end(
        self, partition: AssignedPartition, lane: PartitionLane, record: WireRecord, failed: FailedRecord
    ) -> None:
        match self._policy.then:
            case "skip":
                why, about = failed.reason_in_one_line, _about(lane, record, failed)
                logger.error("%s offset %d is skipped: %s", partition, record.offset, why, extra=about)
                self._metrics.skipped.inc()
                self._settle_failed(partition, lane, record)
            case "deadLetter":
                lane.become(PartitionState.WRITING_DEAD_LETTER)
                self._start(lane, self._write_dead_letter(partition, lane, record, failed))
            case "halt":
                self._halt(partition, lane, record, failed)
                self._start(lane, self.persist(partition))

    def _skip(self, partition: AssignedPartition, lane: PartitionLane) -> None:
        """Settle the record at which the lane is stuck."""
        record = lane.ending
        assert record is not None, "it is stuck at one"
        self._stop(lane)
        logger.warning("%s offset %d is skipped by hand", partition, record.offset)
        self._metrics.skipped.inc()
        self._settle_failed(partition, lane, record)

    def _halt(
        self, partition: AssignedPartition, lane: PartitionLane, record: WireRecord, failed: FailedRecord
    ) -> None:
        attempts = f" after {failed.failures} attempts" if failed.failures else ""
        lane.become(PartitionState.HALTED, f"{attempts}: {failed.reason_in_one_line}")
        logger.error(
            "%s is halted at offset %d%s; nothing of it is lost or committed past that record, the other %s "
            "go on; `headrace partition retry|skip %s` moves it",
            partition,
            record.offset,
            lane.why_stuck,
            "partitions" if lane is partition.lane else "keys and partitions",
            partition,
            extra=_about(lane, record, failed),
        )
        self._metrics.history.note("halted", f"{partition} at offset {record.offset}{attempts}")
        self._state.feed.on_room(partition)  # it is fetched no more

    async def _write_dead_letter(
        self, partition: AssignedPartition, lane: PartitionLane, record: WireRecord, failed: FailedRecord
    ) -> None:
        tries = 0
        try:
            while not await self._is_written(partition, lane, record, failed):
                if lane.state is PartitionState.REVOKED:
                    return
                if lane.is_undecided:  # a record before it is tried first
                    self._go_on(lane)
                    return
                tries += 1
                await asyncio.sleep(self._policy.wait_seconds(tries) or _RETRY_SECONDS)
        except UndecodableError:  # its bytes can't be read at all, so there is nothing to copy
            if lane.state is PartitionState.REVOKED:
                return
            if lane.is_undecided:
                self._go_on(lane)
                return
            self._halt(partition, lane, record, failed)
            await self.persist(partition)
            return
        self._settle_failed(partition, lane, record)

    async def _is_written(
        self, partition: AssignedPartition, lane: PartitionLane, record: WireRecord, failed: FailedRecord
    ) -> bool:
        """Write a dead letter as a task of its own, which counts as in flight until it has ended.

        A revoke waits for it, and may cancel it. What it settles is settled before anything else runs.
        """
        writes = self._state.dead_letter_writes
        work = self._is_dead_letter_written(partition, lane, record, failed)
        write = writes[lane.id] = asyncio.create_task(work, name=f"a dead letter of {partition}")
        try:
            return await write
        finally:
            if writes.get(lane.id) is write:  # otherwise it was given up, and another one has begun
                del writes[lane.id]
            self._state.changed.set()

    async def _is_dead_letter_written(
        self, partition: AssignedPartition, lane: PartitionLane, record: WireRecord, failed: FailedRecord
    ) -> bool:
        topic = self._policy.dead_letter_topic
        about = _about(lane, record, failed)
        try:
            is_written = await self._state.feed.write_dead_letter(
                partition, record, failed.reason, failed.failures
            )
        except UndecodableError:
            raise
        except Exception as error:  # whatever it is, the record stays where it is
            self._metrics.not_moved.inc()
            why = str(error) or type(error).__name__
            if lane.state is not PartitionState.REVOKED:
                lane.become(PartitionState.WRITING_DEAD_LETTER, f": {why}")
            logger.error(  # noqa: TRY400  # the client's traceback helps nobody
                "%s offset %d can't be written to dead-letter topic %s (%s); it stays uncommitted",
                partition,
                record.offset,
                topic,
                why,
                extra=about,
            )
            return False
        if is_written:
            self._metrics.moved.inc()
            logger.error(
                "%s offset %d is now a dead letter in %s", partition, record.offset, topic, extra=about
            )
        else:
            logger.warning(
                "%s offset %d holds no record, so it leaves no dead letter", partition, record.offset
            )
        return True

    def _settle_failed(self, partition: AssignedPartition, lane: PartitionLane, record: WireRecord) -> None:
        """Settle a record that is delivered no more, and let its lane go on."""
        partition.on_acked(record.offset, record.offset + 1)
        self._go_on(lane)

    def _go_on(self, lane: PartitionLane) -> None:
        if lane.state is PartitionState.REVOKED:
            return
        if lane.is_undecided and (partition := self._state.partition_of(lane)) is not None:
            lane.become(PartitionState.RETURNING)
            self.after_failure(partition, lane)
        else:
            lane.become(PartitionState.ACTIVE)
            self._resume(lane)

    def _start(self, lane: PartitionLane, work: Coroutine[Any, Any, None]) -> None:
        self._stop(lane)
        task = start_task(work, f"what is to happen after a failure in {lane.key}")
        self._tasks[lane] = task
        task.add_done_callback(lambda task: self._ended(lane, task))

    def _ended(self, lane: PartitionLane, task: asyncio.Task[None]) -> None:
        # Not if a newer task has its place: `_start` ends the earlier one, which gets here later.
        if self._tasks.get(lane) is task:
            del self._tasks[lane]

    def _stop(self, lane: PartitionLane) -> None:
        if (task := self._tasks.pop(lane, None)) is not None:
            task.cancel()


def _about(lane: PartitionLane, record: WireRecord, failed: FailedRecord) -> dict[str, Any]:
    """Return the fields of a log line about a record that is delivered no more."""
    about = {**lane.key._asdict(), "offset": record.offset, "attempt": failed.failures}
    return log_extra(failed.reason, is_known=True, **about)
