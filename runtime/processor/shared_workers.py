"""Triggers that share the workers of another trigger of their function (`workerAllocatorName`)."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.log_lines import context_bound_to
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.lane import EventLane
from headrace.runtime.processor.running_trigger import (
    RunningFunction,
    RunningTrigger,
    sample_forever,
    trigger_metrics,
)
from headrace.runtime.processor.trigger_classes import trigger_class
from headrace.runtime.processor.worker_start import policy_of
from headrace.runtime.tasks import end_tasks, start_task


class SharedWorkersDispatch:
    """Dispatch of a trigger that shares workers: lanes of events go to the dispatcher that owns these.

    It has what a trigger without partitions asks of its dispatcher, and no more: of the triggers that share
    workers at most one reads a stream, and that one owns them. Lanes are counted as the sharing trigger's,
    and their failures are theirs to report. While the owner's lease is over, nothing of the others starts
    either: the processes are one lease's.
    """

    def __init__(
        self, owner: Dispatcher, policy: DeliveryPolicy, metrics: TriggerMetrics, source: int
    ) -> None:
        """`source` is the number, from 1, by which workers tell apart the triggers that share them."""
        self.policy = policy
        self._owner = owner
        self._metrics = metrics
        self._source = source
        self.lease = owner.lease
        self.worker_count = owner.worker_count
        # Bound here, not wrapped: each is called for each event.
        self.dispatch = owner.dispatch
        self.forget = owner.forget
        self.take_reply = owner.take_reply
        self.recall = owner.recall

    @property
    def seats(self) -> int:
        """How many events may be in handlers at once, whichever trigger they are of."""
        return self._owner.seats

    def submit(self, lane: EventLane) -> None:
        """Hand out a lane's event. `dispatch` follows."""
        lane.source = self._source
        self._owner.submit(lane, self._metrics)


class SharingTrigger:
    """A trigger at work that shares the workers of `owner`, which starts them, and stops them last."""

    def __init__(
        self,
        running: RunningFunction,
        owner: RunningTrigger,
        spec: TriggerSpec,
        registry: MetricRegistry,
        log_labels: Mapping[str, str],
    ) -> None:
        self._owner = owner
        self._spec = spec
        self.context = context_bound_to({"trigger": spec.name}, **log_labels)
        self.metrics = trigger_metrics(registry, running, spec)
        self._has_stopped = asyncio.Event()
        source = owner.add_sharer(self._has_stopped)
        policy = policy_of(running.spec, spec)
        dispatch = SharedWorkersDispatch(owner.dispatcher, policy, self.metrics, source)
        # Kinds that may share workers ask nothing of a dispatcher that is about partitions.
        self.trigger = trigger_class(spec.kind)(
            spec, cast("Dispatch", dispatch), self.metrics, running.client_id(spec.name)
        )

    async def run(self) -> None:
        """Run until `stop`, or until it can't go on. Raises HeadraceError."""
        samples = start_task(sample_forever(self.trigger, self.metrics), "samples")
        try:
            await self.trigger.run()
        finally:
            await end_tasks([samples])

    async def stop(self) -> None:
        """Give its events back; the workers are its owner's to stop."""
        try:
            await self.trigger.stop(self._spec.worker_termination_timeout_seconds)
        finally:
            self._has_stopped.set()

    def problems(self) -> list[str]:
        """Return why it isn't ready, one line each."""
        return [f"{self._spec.name}: {problem}" for problem in self.trigger.problems()]

    def recent(self) -> dict[str, Any]:
        """Return its entry of /api/recent."""
        return {"function": self._owner.function.name, "name": self._spec.name, **self.metrics.history.json()}

    def status(self) -> dict[str, Any]:
        """Return its entry of /api/status."""
        return {
            "function": self._owner.function.name,
            "name": self._spec.name,
            "kind": self._spec.kind,
            "workersOf": self._owner.spec.name,
            "workers": [],
            **self.trigger.status().json(),
        }
