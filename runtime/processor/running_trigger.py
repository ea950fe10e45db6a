"""Functions and triggers at work: what a function's triggers share, and a trigger with its workers."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.batch_scheduler import EndSession, no_session
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.dispatch.interface import Output
from headrace.runtime.dispatch.monitor import DispatchMonitor, worker_statuses
from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.log_lines import context_bound_to
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.processes import FOR_TRACES, PASSED_ON, picked
from headrace.runtime.processor.trigger_classes import output_class, trigger_class
from headrace.runtime.processor.worker_start import policy_of, worker_start
from headrace.runtime.spark import sessions as spark_sessions
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.spark.sessions import SparkSessionError
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.users import OURS, ProcessUser
from headrace.runtime.wire.lease import Lease
from headrace.runtime.workers.process import WorkerProcess
from headrace.triggers.base import Trigger

logger = logging.getLogger(__name__)

_SAMPLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RunningFunction:
    """Function of a replica, with what its triggers share."""

    spec: FunctionSpec
    replica: str = ""
    spark: SparkLink | None = None
    user: ProcessUser = OURS
    router: AckRouter = field(default_factory=AckRouter)
    outputs: Mapping[str, Output] = field(init=False)
    """Outputs by name. Each connects at its first message."""

    def __post_init__(self) -> None:
        """Open the outputs. Raises ContractError."""
        outputs = {
            it.name: output_class(it.kind).open_output(it.settings, self.client_id(it.name))
            for it in self.spec.outputs
        }
        object.__setattr__(self, "outputs", outputs)  # the dataclass is frozen

    def client_id(self, name: str) -> str:
        """Return the name by which a trigger, or an output, signs in at its source."""
        return f"headrace-{self.spec.name}-{name}-{self.replica or os.getpid()}"

    def problems(self) -> list[str]:
        """Return why messages can't be written to an output, one line each."""
        return [
            f"output {name} of {self.spec.name}: {problem}"
            for name, output in self.outputs.items()
            for problem in output.problems()
        ]

    async def close(self) -> None:
        """Close the outputs, once no trigger runs. Idempotent."""
        for output in self.outputs.values():
            await output.close()


class RunningTrigger:
    """Trigger at work, with its dispatcher and workers. Log lines of tasks in `context` name it."""

    def __init__(
        self,
        running: RunningFunction,
        spec: TriggerSpec,
        registry: MetricRegistry,
        log_labels: Mapping[str, str],
    ) -> None:
        """`log_labels` tell its log lines from those of other functions and triggers of the run."""
        function = self.function = running.spec
        self.spec = spec
        self.context = context_bound_to({"trigger": spec.name}, **log_labels)
        self._title = f"{function.name}/{spec.name}" if "function" in log_labels else spec.name
        self.metrics = trigger_metrics(registry, running, spec)
        self.dispatcher = _dispatcher(running, spec, policy_of(function, spec), self.metrics)
        client_id = running.client_id(spec.name)
        self.trigger = trigger_class(spec.kind)(spec, self.dispatcher, self.metrics, client_id)
        self._sharers: list[asyncio.Event] = []
        self._monitor = DispatchMonitor(self.dispatcher, self.metrics)

    def add_sharer(self, has_stopped: asyncio.Event) -> int:
        """Count another trigger that uses the workers until `has_stopped`; return its number, from 1."""
        self._sharers.append(has_stopped)
        return len(self._sharers)

    async def start_workers(self) -> None:
        """Start the workers; return once all are ready to call the handler. Raises HandlerLoadError."""
        try:
            await self.dispatcher.start()
        except HandlerLoadError as error:
            # The worker knows its handler, but not the file that names it.
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
        """Run until `stop`, or until it can't go on. Raises HeadraceError."""
        watches = [
            start_task(self._monitor.look_forever(), "warnings"),
            start_task(sample_forever(self.trigger, self.metrics), "samples"),
        ]
        try:
            await self.trigger.run()
        finally:
            await end_tasks(watches)

    async def stop(self) -> None:
        """Give its records back, then stop the workers, once no trigger needs them."""
        # Before the trigger gives its partitions back: handlers then get no drain callbacks for that.
        self.dispatcher.announce_stop()
        try:
            await self.trigger.stop(self.spec.worker_termination_timeout_seconds)
        finally:
            await asyncio.gather(*(has_stopped.wait() for has_stopped in self._sharers))
            await self.dispatcher.stop(self.spec.worker_termination_timeout_seconds)

    def problems(self) -> list[str]:
        """Return why it isn't ready, one line each."""
        starting = [w.index for w in self.dispatcher.workers if not w.is_ready]
        return [
            *(f"{self._title}: {problem}" for problem in self.trigger.problems()),
            *(f"{self._title}: worker {index} is not ready" for index in starting),
            *(f"{self._title}: {problem}" for problem in self._monitor.problems()),
        ]

    def recent(self) -> dict[str, Any]:
        """Return its entry of /api/recent."""
        return {"function": self.function.name, "name": self.spec.name, **self.metrics.history.json()}

    def status(self) -> dict[str, Any]:
        """Return its entry of /api/status."""
        return {
            "function": self.function.name,
            "name": self.spec.name,
            "kind": self.spec.kind,
            "workerAllocationMode": self.dispatcher.policy.worker_allocation_mode,
            "explicitAckMode": self.spec.explicit_ack_mode,
            "workers": worker_statuses(self.dispatcher),
            **self.trigger.status().json(),
        }


async def sample_forever(trigger: Trigger, metrics: TriggerMetrics) -> None:
    """Sample lag and handled events each second, for the admin server's page."""
    while True:
        lag = sum(row.lag for row in trigger.status().partitions)
        metrics.history.sample(lag, *metrics.handled)
        await asyncio.sleep(_SAMPLE_SECONDS)


def trigger_metrics(registry: MetricRegistry, running: RunningFunction, spec: TriggerSpec) -> TriggerMetrics:
    """Return the metrics of a trigger, with its labels."""
    function = running.spec
    of_function = (function.namespace, function.project)
    return TriggerMetrics(registry, running.replica, function.name, spec.kind, spec.name, *of_function)


def _dispatcher(
    running: RunningFunction, spec: TriggerSpec, policy: DeliveryPolicy, metrics: TriggerMetrics
) -> Dispatcher:
    # One lease for all workers of the trigger: it is memory that they share with this process.
    lease = Lease.create(spec.num_workers)
    spawn = _spawner(running, spec, policy, lease)
    end_session = _session_ender(running.spark) if running.spark else no_session
    router, outputs = running.router, running.outputs
    return Dispatcher(spec.num_workers, spawn, policy, metrics, lease, router, end_session, outputs)


def _spawner(
    running: RunningFunction, spec: TriggerSpec, policy: DeliveryPolicy, lease: Lease
) -> "Callable[[int], WorkerProcess]":
    function, spark, user = running.spec, running.spark, running.user
    env = {**picked(os.environ, (*PASSED_ON, *FOR_TRACES)), **user.environment, **function.worker_env}
    env["HEADRACE_REPLICA"] = str(spec.replica_index or 0)
    sharers = [(sharer, policy_of(function, sharer)) for sharer in function.sharers_of(spec)]

    def spawn(index: int) -> WorkerProcess:
        start = worker_start(function, spec, policy, spark, sharers)
        # Asked at each start: the router knows all triggers of the function only once they are made.
        start = replace(start, worker_id=index, takes_acks=running.router.takes_acks)
        end_session = _session_ender(spark) if spark else None
        return WorkerProcess(start, env, lease, end_session, user)

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
