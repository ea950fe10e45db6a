"""What becomes of a partition whose record failed: wait and try again, or what `onFailure.then` says."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.runtime.config.failure import FailurePolicy
from headrace.runtime.dispatch.feed import Feed
from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partitions.assigned import AssignedPartition, PartitionState
from headrace.runtime.partitions.failed_records import FailedRecord
from headrace.runtime.tasks import start_task
from headrace.runtime.wire.frames import WireRecord
from headrace.runtime.wire.undecodable import UndecodableError

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class Failures:
    """One task per partition that waits for something; `resume` is called when it may be handed out again.

    A task owns its partition's hold until that is changed from outside: then it ends without a trace.
    """

    def __init__(
        self,
        policy: FailurePolicy,
        feed: Callable[[], Feed],
        metrics: TriggerMetrics,
        resume: Callable[[AssignedPartition], None],
    ) -> None:
        self._policy = policy
        self._feed = feed
        self._metrics = metrics
        self._resume = resume
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def begin(self, partition: AssignedPartition) -> None:
        """Its assignment does. What has had all its attempts goes alone: one more, and it ends."""
        for offset, trouble in partition.failed_records.items():
            if self._policy.is_spent(trouble.failures):
                trouble.batch_limit = trouble.span_from(offset)

    def decide(self, partition: AssignedPartition) -> None:
        """What failed is back, and nothing is in flight."""
        failed = [(o, t) for o in partition.failed_now if (t := partition.failed_records.get(o)) is not None]
        last = None
        for offset, trouble in failed:
            if self._policy.is_spent(trouble.failures):
                trouble.batch_limit = max(trouble.among // 2, 1)
                partition.drop_plan()
                if trouble.among == 1:
                    last = (offset, trouble)
        if last is not None:
            self._end(partition, *last)
        elif not failed:  # all of it was acked meanwhile
            self._go_on(partition)
        else:
            partition.state = PartitionState.BACKOFF
            self._start(partition, self._back_off(partition, [trouble for _, trouble in failed]))

    def refuse(self, partition: AssignedPartition) -> None:
        """The next record to hand out must not be delivered."""
        offset = partition.next_offset
        assert offset is not None
        partition.failed_now = [offset]
        self._end(partition, offset, partition.failed_records[offset])

    def retry(self, partition: AssignedPartition) -> None:
        """One more delivery, now."""
        self._stop(partition)
        self._go_on(partition)

    def skip(self, partition: AssignedPartition) -> None:
        """Settle the record at which it is stuck."""
        self._stop(partition)
        offset = partition.next_offset
        assert offset is not None, "the failed record is back"
        logger.warning("%s offset %d is skipped by hand", partition, offset)
        self._metrics.skipped.inc()
        self._give_up(partition, offset)

    def forget(self, partition: AssignedPartition) -> None:
        """It is revoked."""
        self._stop(partition)

    async def stop(self) -> None:
        """Idempotent."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- inside

    async def _back_off(self, partition: AssignedPartition, failed: list[FailedRecord]) -> None:
        waits = [
            self._policy.wait_seconds(t.failures) for t in failed if not self._policy.is_spent(t.failures)
        ]
        wait = max(waits, default=0.0)
        logger.info("%s is delivered again in %.1f s", partition, wait)
        # Before the record runs again: what kills its replica must not begin at attempt 1 for ever.
        await asyncio.gather(self._persist(partition), asyncio.sleep(wait))
        self._go_on(partition)

    async def _persist(self, partition: AssignedPartition) -> None:
        while not await self._feed().commit([partition]):  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(_RETRY_SECONDS)

    def _end(self, partition: AssignedPartition, offset: int, trouble: FailedRecord) -> None:
        match self._policy.then:
            case "skip":
                logger.error("%s offset %d is skipped: %s", partition, offset, trouble.reason)
                self._metrics.skipped.inc()
                self._give_up(partition, offset)
            case "deadLetter":
                partition.state = PartitionState.WRITING_DEAD_LETTER
                self._start(partition, self._write_dead_letter(partition, offset, trouble))
            case "halt":
                self._halt(partition, trouble)
                self._start(partition, self._persist(partition))

    def _halt(self, partition: AssignedPartition, trouble: FailedRecord) -> None:
        partition.state = PartitionState.HALTED
        attempts = f" after {trouble.failures} attempts" if trouble.failures else ""
        partition.why_stuck = f"{attempts}: {trouble.reason_in_one_line}"
        logger.error(
            "%s; nothing of it is lost or committed past that record, the other partitions go on; "
            "`headrace partition retry|skip %s` moves it",
            partition.problem,
            partition,
        )
        self._feed().on_room(partition)  # there is none

    async def _write_dead_letter(
        self, partition: AssignedPartition, offset: int, trouble: FailedRecord
    ) -> None:
        record = partition.head
        assert record is not None, "the failed record is back"
        tries = 0
        try:
            while not await self._is_dead_letter_written(partition, record, trouble):
                tries += 1
                await asyncio.sleep(self._policy.wait_seconds(tries) or _RETRY_SECONDS)
        except UndecodableError:  # nothing of it can be copied
            self._halt(partition, trouble)
            await self._persist(partition)
            return
        self._give_up(partition, offset)

    async def _is_dead_letter_written(
        self, partition: AssignedPartition, record: WireRecord, trouble: FailedRecord
    ) -> bool:
        topic = self._policy.dead_letter_topic
        try:
            is_written = await self._feed().write_dead_letter(
                partition, record, trouble.reason, trouble.failures
            )
        except UndecodableError:
            raise
        except Exception as error:  # whatever it is, the record stays where it is
            why = str(error) or type(error).__name__
            partition.why_stuck = f": {why}"
            logger.error(  # noqa: TRY400  # the client's traceback helps nobody
                "%s offset %d can't be written to dead-letter topic %s (%s); it stays uncommitted",
                partition,
                record.offset,
                topic,
                why,
            )
            return False
        if is_written:
            self._metrics.moved.inc()
            logger.error("%s offset %d is now a dead letter in %s", partition, record.offset, topic)
        else:
            logger.warning(
                "%s offset %d holds no record, so it leaves no dead letter", partition, record.offset
            )
        return True

    def _give_up(self, partition: AssignedPartition, offset: int) -> None:
        partition.give_up(offset)
        self._go_on(partition)

    def _go_on(self, partition: AssignedPartition) -> None:
        partition.why_stuck = ""
        if partition.state is not PartitionState.REVOKED:
            partition.state = PartitionState.ACTIVE
            self._resume(partition)

    def _start(self, partition: AssignedPartition, work: Coroutine[Any, Any, None]) -> None:
        self._stop(partition)
        task = start_task(work, f"what is to happen after a failure in {partition}")
        self._tasks[partition.id] = task
        task.add_done_callback(lambda task: self._ended(partition, task))

    def _ended(self, partition: AssignedPartition, task: asyncio.Task[None]) -> None:
        if self._tasks.get(partition.id) is task:
            del self._tasks[partition.id]

    def _stop(self, partition: AssignedPartition) -> None:
        if (task := self._tasks.pop(partition.id, None)) is not None:
            task.cancel()
