"""Records that were handled and have failed all the same: by `explicit_nack`, or past `ackDeadline`."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.failed_records import FailedRecord
from headrace.runtime.partitions.offsets.failure_text import in_one_line, log_extra
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.settings.durations import format_duration
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.wire.records import Nack

logger = logging.getLogger(__name__)

_MOST_LOOK_SECONDS = 1.0


class Partitions(Protocol):
    """What is shared with the rest of a dispatcher: `partitions` by lane."""

    policy: DeliveryPolicy
    metrics: TriggerMetrics
    partitions: dict[int, AssignedPartition]


class Decides(Protocol):
    """What becomes of records that have failed."""

    def judge(self, record: FailedRecord) -> bool:
        """Whether it has spent its attempts; then it goes alone, or not at all."""

    async def persist(self, partition: AssignedPartition) -> None:
        """Return once its attempts are safe."""


class _Failing:
    """What of one partition is to come again: when, by its first offset, on the event loop's clock."""

    def __init__(self) -> None:
        self.due: dict[int, float] = {}
        self.is_more = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Redelivery:
    """Of one trigger. What has failed waits its backoff, is fetched again, and ends as `onFailure` says.

    The others of its partition go on meanwhile: whoever acks explicitly has no order to lose.
    """

    def __init__(self, shared: Partitions, failures: Decides, resume: Callable[[Lane], None]) -> None:
        """`resume`: something of a lane is to come again."""
        self._shared = shared
        self._failures = failures
        self._resume = resume
        self._failing: dict[int, _Failing] = {}  # by lane
        self._seen: dict[int, dict[int, float]] = {}  # since when what waits for acks does, by lane
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look out for what is not acked in time."""
        if (deadline_seconds := self._shared.policy.ack_deadline_seconds) is not None:
            self._watch = start_task(self._look_forever(deadline_seconds), "ackDeadline")

    async def stop(self) -> None:
        """Idempotent."""
        tasks = [self._watch, *(failing.task for failing in self._failing.values())]
        await end_tasks(task for task in tasks if task is not None)

    def take(self, partition: AssignedPartition, nack: Nack) -> None:
        """A handler says that one of its records has failed."""
        first = partition.acked_by(nack.offset)
        if first is not None and first in partition.unacked:
            self.fail(partition, first, nack.reason)
        elif first is not None and _is_in_flight(partition, first):
            partition.nacked[first] = nack.reason, 1  # once its handler has returned
        elif not partition.ledger.is_settled(nack.offset):
            message = "a nack of %s offset %d is refused: it has not been handled"
            logger.warning(message, partition, nack.offset)

    def on_handled(self, partition: AssignedPartition, firsts: Iterable[int]) -> None:
        """These wait for their acks now. Some may have been nacked before."""
        for first in firsts:
            if (nacked := partition.nacked.pop(first, None)) is not None and first in partition.unacked:
                self.fail(partition, first, *nacked)

    def begin_anew(self, partition: AssignedPartition) -> None:
        """Some of what waited for acks is to be handled again, and may fail again."""
        seen = self._seen.get(partition.lane.id, {})
        self._seen[partition.lane.id] = {
            first: at for first, at in seen.items() if first in partition.unacked
        }
        if (failing := self._failing.get(partition.lane.id)) is not None:
            failing.due = {first: at for first, at in failing.due.items() if first in partition.unacked}

    def end(self, partition: AssignedPartition) -> None:
        """It is delivered no more; attempts are counted in its commit."""
        self._seen.pop(partition.lane.id, None)
        failing = self._failing.pop(partition.lane.id, None)
        if failing is not None and failing.task is not None:
            failing.task.cancel()

    # ---- inside

    def fail(self, partition: AssignedPartition, first: int, reason: str, among: int = 1) -> None:
        """It was handled, and has failed, in a call with `among` records of which any may be to blame."""
        end, failing = (
            partition.unacked.end_of(first),
            self._failing.setdefault(partition.lane.id, _Failing()),
        )
        if first in failing.due or partition.unacked.is_orphan(first):
            return  # it is to come again already
        policy, shared = self._shared.policy.failure, self._shared
        partition.failed.note_failure(
            first, reason, among, end if partition.lane.buffer.holds_ranges else None
        )
        failed = partition.failed[first]
        shared.metrics.handled_failure.inc()
        of_how_many = f" of {policy.max_attempts}" if policy.max_attempts else ""
        message = "%s offset %d failed at attempt %d%s, after its handler had returned: %s"
        about = {**partition.key._asdict(), "offset": end - 1, "attempt": failed.failures}
        extra = log_extra(reason, is_known=True, **about)
        logger.error(
            message, partition, end - 1, failed.failures, of_how_many, in_one_line(reason), extra=extra
        )
        self._failures.judge(failed)
        wait_seconds = 0.0 if failed.is_refused else policy.wait_seconds(failed.failures)
        failing.due[first] = asyncio.get_running_loop().time() + wait_seconds
        failing.is_more.set()
        if failing.task is None or failing.task.done():
            failing.task = start_task(
                self._begin_again(partition, failing), f"what was nacked of {partition}"
            )

    async def _begin_again(self, partition: AssignedPartition, failing: _Failing) -> None:
        """Attempts are committed first: what kills its replica must not begin at attempt 1 for ever."""
        loop = asyncio.get_running_loop()
        while failing.due:
            failing.is_more.clear()
            known = failing.due.copy()
            await self._failures.persist(partition)
            left_seconds = max(0.0, min(known.values()) - loop.time())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_seconds):  # wait_for may lose a cancellation
                    await failing.is_more.wait()
            now = loop.time()  # and nothing is given up whose attempt isn't safe
            is_due = (first for first, at in known.items() if at <= now and failing.due.get(first) == at)
            self._give_up(list(is_due), partition, failing)

    def _give_up(self, firsts: Iterable[int], partition: AssignedPartition, failing: _Failing) -> None:
        for first in firsts:
            failing.due.pop(first, None)
        abandoned = [first for first in firsts if partition.unacked.abandon(first)]
        if abandoned:
            self._resume(partition.lane)

    async def _look_forever(self, deadline_seconds: float) -> None:
        while True:
            await asyncio.sleep(min(_MOST_LOOK_SECONDS, deadline_seconds / 4))
            for partition in list(self._shared.partitions.values()):
                self._look(partition, deadline_seconds)

    def _look(self, partition: AssignedPartition, deadline_seconds: float) -> None:
        before, now = self._seen.get(partition.lane.id, {}), asyncio.get_running_loop().time()
        seen = self._seen[partition.lane.id] = {first: before.get(first, now) for first in partition.unacked}
        why = f"it was handled {format_duration(deadline_seconds)} ago and is not acked (ackDeadline)"
        for first, since in seen.items():
            if now - since >= deadline_seconds:
                self.fail(partition, first, why)


def _is_in_flight(partition: AssignedPartition, first: int) -> bool:
    """Whether it is at a worker: where handlers ack, a partition is handled in order."""
    next_offset = partition.lane.next_offset
    waits = first in partition.unacked or (next_offset is not None and first >= next_offset)
    return partition.ledger.is_open(first) and not waits
