"""A function at work, as far as its triggers share it."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.config.function import FunctionSpec, TriggerSpec
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.allocators import Allocator, PoolAllocator, StaticAllocator
from headrace.runtime.dispatch.batch_scheduler import EndSession, no_session
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.dispatch.interface import Output
from headrace.runtime.dispatch.monitor import DispatchMonitor, worker_statuses
from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.log_lines import context_bound_to
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.processes import FOR_TRACES, PASSED_ON, picked
from headrace.runtime.processor.shared_workers import SharedWorkersDispatch
from headrace.runtime.processor.trigger_classes import output_kind, trigger_class
from headrace.runtime.processor.worker_start import policy_of, worker_start
from headrace.runtime.spark import sessions as spark_sessions
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.spark.sessions import SparkSessionError
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.users import OURS, ProcessUser
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.records import FrameKind
from headrace.runtime.workers.process import WorkerProcess
from headrace.triggers.base import Trigger


@dataclass(frozen=True, slots=True)
class RunningFunction:
    """One of a replica. `outputs`, by name, connect by themselves; `close` is for when no trigger runs."""

    spec: FunctionSpec
    replica: str = ""
    spark: SparkLink | None = None
    user: ProcessUser = OURS
    router: AckRouter = field(default_factory=AckRouter)
    outputs: Mapping[str, Output] = field(init=False)

    def __post_init__(self) -> None:
        """Raises ContractError."""
        outputs = {
            it.name: output_kind(it.kind).open_output(it.settings, self.client_id(it.name))
            for it in self.spec.outputs
        }
        object.__setattr__(self, "outputs", outputs)  # it is frozen

    def client_id(self, name: str) -> str:
        """What a trigger, or an output, of that name calls this replica."""
        return f"headrace-{self.spec.name}-{name}-{self.replica or os.getpid()}"

    def problems(self) -> list[str]:
        """Why something can't be sent on."""
        return [
            f"output {name} of {self.spec.name}: {problem}"
            for name, output in self.outputs.items()
            for problem in output.problems()
        ]

    async def close(self) -> None:
        """Its outputs. Idempotent."""
        for output in self.outputs.values():
            await output.close()


logger = logging.getLogger(__name__)


_SAMPLE_SECONDS = 1.0


class RunningTrigger:
    """A trigger with what it feeds. What it does runs in `context`, whose log lines name it."""

    def __init__(
        self,
        running: RunningFunction,
        spec: TriggerSpec,
        metrics: MetricRegistry,
        told_apart_by: Mapping[str, str],
    ) -> None:
        function = self.function = running.spec
        self.spec = spec
        self.context = context_bound_to({"trigger": spec.name}, **told_apart_by)
        self._title = f"{function.name}/{spec.name}" if "function" in told_apart_by else spec.name
        self.metrics = _metrics(metrics, running, spec)
        self.dispatcher = _dispatcher(running, spec, policy_of(function, spec), self.metrics)
        client_id = running.client_id(spec.name)
        self.trigger = trigger_class(spec.kind)(spec, self.dispatcher, self.metrics, client_id)
        self.guests: list[RunningGuest] = []
        self._warnings = DispatchMonitor(self.dispatcher, self.metrics)

    async def start_workers(self) -> None:
        """Ready to call the handler. Raises HandlerLoadError."""
        try:
            await self.dispatcher.start()
        except HandlerLoadError as error:
            handler = f"{self.function.path}: spec.handler {self.function.handler}"
            raise HandlerLoadError(f"{handler}: {error}") from None
        logger.info(
            "%s: %d worker%s loaded %s, %s allocation",
            self.spec.name,
            self.spec.num_workers,
            "s" if self.spec.num_workers > 1 else "",
            self.function.handler,
            self.dispatcher.policy.worker_allocation_mode,
        )

    async def run(self) -> None:
        """Until `stop`, or it can't go on. Raises HeadraceError."""
        looks = [
            start_task(self._warnings.look_forever(), "warnings"),
            start_task(_sample(self.trigger, self.metrics), "samples"),
        ]
        try:
            await self.trigger.run()
        finally:
            await end_tasks(looks)

    async def stop(self) -> None:
        """Records first, then workers, once nobody needs them."""
        self.dispatcher.announce_stop()
        try:
            await self.trigger.stop(self.spec.worker_termination_timeout_seconds)
        finally:
            await asyncio.gather(*(guest.has_given_back.wait() for guest in self.guests))
            await self.dispatcher.stop(self.spec.worker_termination_timeout_seconds)

    def problems(self) -> list[str]:
        """Why it isn't ready."""
        starting = [w.index for w in self.dispatcher.workers if not w.is_ready]
        return [
            *(f"{self._title}: {problem}" for problem in self.trigger.problems()),
            *(f"{self._title}: worker {index} is not ready" for index in starting),
            *(f"{self._title}: {problem}" for problem in self._warnings.problems()),
        ]

    def recent(self) -> dict[str, Any]:
        """For /api/recent."""
        return {"function": self.function.name, "name": self.spec.name, **self.metrics.history.json()}

    def status(self) -> dict[str, Any]:
        """For /api/status."""
        return {
            "function": self.function.name,
            "name": self.spec.name,
            "kind": self.spec.kind,
            "workerAllocationMode": self.dispatcher.policy.worker_allocation_mode,
            "explicitAckMode": self.spec.explicit_ack_mode,
            "workers": worker_statuses(self.dispatcher),
            **self.trigger.status().json(),
        }


class RunningGuest:
    """A trigger that shares the workers of another one. Used as a RunningTrigger is; its host ends last."""

    def __init__(
        self,
        running: RunningFunction,
        host: RunningTrigger,
        spec: TriggerSpec,
        metrics: MetricRegistry,
        told_apart_by: Mapping[str, str],
    ) -> None:
        function = running.spec
        self._host = host
        self._spec = spec
        self.context = context_bound_to({"trigger": spec.name}, **told_apart_by)
        self.metrics = _metrics(metrics, running, spec)
        host.guests.append(self)
        dispatch: Any = SharedWorkersDispatch(
            host.dispatcher, policy_of(function, spec), self.metrics, len(host.guests)
        )
        client_id = running.client_id(spec.name)
        self.trigger = trigger_class(spec.kind)(spec, dispatch, self.metrics, client_id)
        self.has_given_back = asyncio.Event()

    async def start_workers(self) -> None:
        """They are its host's."""

    async def run(self) -> None:
        """Until `stop`, or it can't go on. Raises HeadraceError."""
        samples = start_task(_sample(self.trigger, self.metrics), "samples")
        try:
            await self.trigger.run()
        finally:
            await end_tasks([samples])

    async def stop(self) -> None:
        """Events; the workers are its host's to stop."""
        try:
            await self.trigger.stop(self._spec.worker_termination_timeout_seconds)
        finally:
            self.has_given_back.set()

    def problems(self) -> list[str]:
        """Why it isn't ready."""
        return [f"{self._spec.name}: {problem}" for problem in self.trigger.problems()]

    def recent(self) -> dict[str, Any]:
        """For /api/recent."""
        return {"function": self._host.function.name, "name": self._spec.name, **self.metrics.history.json()}

    def status(self) -> dict[str, Any]:
        """For /api/status."""
        return {
            "function": self._host.function.name,
            "name": self._spec.name,
            "kind": self._spec.kind,
            "workersOf": self._host.spec.name,
            "workers": [],
            **self.trigger.status().json(),
        }


async def _sample(trigger: Trigger, metrics: TriggerMetrics) -> None:
    """Each second, for the page."""
    while True:
        lag = sum(row.lag for row in trigger.status().partitions)
        metrics.history.sample(lag, *metrics.handled)
        await asyncio.sleep(_SAMPLE_SECONDS)


def _metrics(metrics: MetricRegistry, running: RunningFunction, spec: TriggerSpec) -> TriggerMetrics:
    function = running.spec
    of_function = (function.namespace, function.project)
    return TriggerMetrics(metrics, running.replica, function.name, spec.kind, spec.name, *of_function)


def _dispatcher(
    running: RunningFunction, spec: TriggerSpec, policy: DeliveryPolicy, metrics: TriggerMetrics
) -> Dispatcher:
    is_static = policy.worker_allocation_mode == "static"
    allocator: Allocator = StaticAllocator(spec.num_workers) if is_static else PoolAllocator()
    lease = Lease.create(spec.num_workers)
    spawn = _spawner(running, spec, policy, lease)
    end_session = _session_ender(running.spark) if running.spark else no_session
    dispatcher = Dispatcher(
        spec.num_workers, spawn, allocator, policy, metrics, lease, running.router, end_session
    )
    dispatcher.outputs.update(running.outputs)
    return dispatcher


def _spawner(
    running: RunningFunction, spec: TriggerSpec, policy: DeliveryPolicy, lease: Lease
) -> "Callable[[int, Callable[[FrameKind, bytes], None]], WorkerProcess]":
    function, spark, user = running.spec, running.spark, running.user
    env = {**picked(os.environ, (*PASSED_ON, *FOR_TRACES)), **user.environment, **function.worker_env}
    env["HEADRACE_REPLICA"] = str(spec.replica_index or 0)
    guests = [(guest, policy_of(function, guest)) for guest in function.guests_of(spec)]

    def spawn(index: int, on_frame: "Callable[[FrameKind, bytes], None]") -> WorkerProcess:
        start = worker_start(function, spec, policy, spark, guests)
        start = replace(start, worker_id=index, takes_acks=running.router.takes_acks)
        end_session = _session_ender(spark) if spark else None
        return WorkerProcess(start, env, on_frame, lease, end_session, user)

    return spawn


def _session_ender(spark: SparkLink) -> EndSession:
    async def end_session(session_id: str) -> bool:
        if not spark.has_server:
            return True
        try:
            await spark_sessions.interrupt(spark.session_url, session_id)
        except SparkSessionError as error:
            # Where the server itself is gone, so is what ran on it.
            logger.warning("%s; what it runs may go on while its records are delivered again", error)
            return False
        return True

    return end_session
