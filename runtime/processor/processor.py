"""One replica of a function, or of several: triggers, their dispatchers and workers, in one process."""

import asyncio
import gc
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from prometheus_client import generate_latest

from headrace.runtime.config.delivery import DeliveryPolicy
from headrace.runtime.config.function import FunctionSpec, TriggerSpec
from headrace.runtime.dispatch.acks.router import AckRouter
from headrace.runtime.dispatch.allocators import Allocator, PoolAllocator, StaticAllocator
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.dispatch.handout import EndSession, no_session
from headrace.runtime.dispatch.reports import Warnings, worker_statuses
from headrace.runtime.environment import PASSED_ON, picked
from headrace.runtime.errors import HandlerLoadError, HeadraceError
from headrace.runtime.log import context_bound_to
from headrace.runtime.metrics import Metrics, TriggerMetrics
from headrace.runtime.partitions.status import is_stuck, state_name
from headrace.runtime.processor.admin.gauges import fill_gauges
from headrace.runtime.processor.admin.server import Action, NotHaltedError
from headrace.runtime.processor.kinds import trigger_class
from headrace.runtime.spark import sessions as spark_sessions
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.spark.sessions import SparkSessionError
from headrace.runtime.tasks import start_task, task_group
from headrace.runtime.users import OURS, ProcessUser
from headrace.runtime.wire.frames import Kind
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.start import STREAM_EVENT, WorkerStart
from headrace.runtime.workers.process import WorkerProcess

logger = logging.getLogger(__name__)


class RunningTrigger:
    """A trigger with what it feeds. What it does runs in `context`, whose log lines name it."""

    def __init__(  # noqa: PLR0913, PLR0917  # what a trigger is made of
        self,
        function: FunctionSpec,
        spec: TriggerSpec,
        metrics: Metrics,
        replica: str,
        router: AckRouter,
        spark: SparkLink | None,
        told_apart_by: Mapping[str, str],
        user: ProcessUser = OURS,
    ) -> None:
        self.function = function
        self.spec = spec
        self.context = context_bound_to({"trigger": spec.name}, **told_apart_by)
        self._title = f"{function.name}/{spec.name}" if "function" in told_apart_by else spec.name
        self.metrics = TriggerMetrics(
            metrics, replica, function.name, spec.kind, spec.name, function.namespace, function.project
        )
        kind = trigger_class(spec.kind)
        policy = kind.delivery(spec.settings, spec.fields)
        if function.is_from_mlrun and policy.explicit_ack_semantics == "auto":
            policy = replace(policy, explicit_ack_semantics="cumulative")
        policy = replace(
            policy,
            event_timeout_seconds=function.event_timeout_seconds,
            memory_limit_bytes=function.memory_limit_bytes,
        )
        is_static = policy.worker_allocation_mode == "static"
        allocator: Allocator = StaticAllocator(spec.num_workers) if is_static else PoolAllocator()
        lease = Lease.create(spec.num_workers)
        spawn = _spawner(function, spec, policy, router, lease, spark, user)
        end_session = _session_ender(spark) if spark else no_session
        self.dispatcher = Dispatcher(
            spec.num_workers, spawn, allocator, policy, self.metrics, lease, router, end_session
        )
        client_id = f"headrace-{function.name}-{spec.name}-{replica or os.getpid()}"
        self.trigger = kind(spec, self.dispatcher, self.metrics, client_id)
        self._warnings = Warnings(self.dispatcher, self.metrics)

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
        warnings = start_task(self._warnings.look_forever(), "warnings")
        try:
            await self.trigger.run()
        finally:
            warnings.cancel()

    async def stop(self) -> None:
        """Records first, then workers."""
        self.dispatcher.announce_stop()
        try:
            await self.trigger.stop(self.spec.worker_termination_timeout_seconds)
        finally:
            await self.dispatcher.stop(self.spec.worker_termination_timeout_seconds)

    def problems(self) -> list[str]:
        """Why it isn't ready."""
        starting = [w.index for w in self.dispatcher.workers if not w.is_ready]
        return [
            *(f"{self._title}: {problem}" for problem in self.trigger.problems()),
            *(f"{self._title}: worker {index} is not ready" for index in starting),
            *(f"{self._title}: {problem}" for problem in self._warnings.problems()),
        ]

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


def _spawner(  # noqa: PLR0913, PLR0917  # what a worker is made of
    function: FunctionSpec,
    spec: TriggerSpec,
    policy: DeliveryPolicy,
    router: AckRouter,
    lease: Lease,
    spark: SparkLink | None,
    user: ProcessUser,
) -> "Callable[[int, Callable[[Kind, bytes], None]], WorkerProcess]":
    env = {**picked(os.environ, PASSED_ON), **user.environment, **function.worker_env}

    def spawn(index: int, on_frame: "Callable[[Kind, bytes], None]") -> WorkerProcess:
        start = WorkerStart(
            folder=str(function.folder.resolve()),
            module=function.handler_module,
            function=function.handler_function,
            worker_id=index,
            namespace=function.namespace,
            function_addresses=function.function_addresses,
            log_level=function.handler_log_level or logging.getLogger().getEffectiveLevel(),
            has_event_keys=not function.is_from_mlrun,
            trigger_kind=spec.kind,
            trigger_name=spec.name,
            ack_mode=policy.ack_mode.value,
            is_cumulative=policy.is_cumulative,
            takes_acks=router.takes_acks,
            is_batch=policy.batch is not None,
            decoder=policy.decoder,
            decoder_options=policy.decoder_options,
            event=policy.event or STREAM_EVENT,
            wants_replies=policy.wants_replies,
            source_options=policy.source_options,
            spark_url=spark.lasting_url if spark else "",
            spark_token_fd=spark.token_fd if spark else -1,
            spark_session_id=str(uuid.uuid4()) if spark else "",
            spark_conf=spark.conf if spark else {},
        )
        end_session = _session_ender(spark) if spark else None
        return WorkerProcess(start, env, on_frame, lease, end_session, user)

    return spawn


def _session_ender(spark: SparkLink) -> EndSession:
    async def end_session(session_id: str) -> bool:
        try:
            await spark_sessions.interrupt(spark.session_url, session_id)
        except SparkSessionError as error:
            # Where the server itself is gone, so is what ran on it.
            logger.warning("%s; what it runs may go on while its records are delivered again", error)
            return False
        return True

    return end_session


class Processor:
    """Start, run, stop. Keeps admin.Reported."""

    def __init__(
        self,
        functions: Sequence[FunctionSpec],
        replica: str,
        sparks: Mapping[str, SparkLink] | None = None,
        on_loaded: Callable[[], None] = lambda: None,
        user: ProcessUser = OURS,
    ) -> None:
        """Functions of different names; `sparks` by function, for those that have Spark.

        `on_loaded` is called once all handlers are. Handlers run as `user`.
        """
        self._user = user
        self._on_loaded = on_loaded
        self._functions = functions
        self._replica = replica
        self._metrics = Metrics()
        self._started = time.time()
        self._triggers = [
            running for function in functions for running in self._triggers_of(function, sparks or {})
        ]

    def _triggers_of(
        self, function: FunctionSpec, sparks: Mapping[str, SparkLink]
    ) -> "Iterator[RunningTrigger]":
        router, spark = AckRouter(), sparks.get(function.name)
        for spec in function.triggers:
            told_apart_by = {"function": function.name} if len(self._functions) > 1 else {}
            if len(function.triggers) > 1:
                told_apart_by["trigger"] = spec.name
            yield RunningTrigger(
                function, spec, self._metrics, self._replica, router, spark, told_apart_by, self._user
            )

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or a trigger can't go on. Raises HeadraceError. Everything is given back."""
        running = asyncio.create_task(self._run(), name="processor")
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        # Each trigger gives back what it has, whatever happens in the others.
        stops = [asyncio.create_task(trigger.stop(), context=trigger.context) for trigger in self._triggers]
        for task in (running, stopping):
            task.cancel()
        results = await asyncio.gather(running, *stops, return_exceptions=True)
        for failure in results:
            if isinstance(failure, Exception):
                raise failure

    async def _run(self) -> None:
        for running in self._triggers:
            await asyncio.create_task(running.start_workers(), context=running.context)
        gc.freeze()  # what is imported stays: no collection need look at it
        self._on_loaded()
        async with task_group(HeadraceError) as runs:
            for running in self._triggers:
                runs.create_task(running.run(), context=running.context)

    async def problems(self) -> list[str]:
        """Why it isn't ready."""
        return [problem for running in self._triggers for problem in running.problems()]

    async def status(self) -> dict[str, Any]:
        """The functions, and one replica of them."""
        replica = {
            "name": self._replica,
            "pid": os.getpid(),
            "started": self._started,
            "problems": await self.problems(),
            "triggers": [running.status() for running in self._triggers],
        }
        return {"functions": [function.name for function in self._functions], "replicas": [replica]}

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """On each trigger that has the partition. Raises NotHaltedError."""
        found = [
            (running, assigned)
            for running in self._triggers
            for assigned in running.dispatcher.partitions.values()
            if assigned.key == (topic, partition)
        ]
        stuck = [(running, assigned) for running, assigned in found if is_stuck(assigned)]
        if found and not stuck:
            raise NotHaltedError(f"{topic}/{partition} is not halted: it is {state_name(found[0][1])}")
        return [running.context.run(running.dispatcher.act, action, assigned) for running, assigned in stuck]

    async def metrics(self) -> bytes:
        """Counters as they are, gauges read now."""
        gauges = self._metrics.gauges
        gauges.clear()
        for running in self._triggers:
            fill_gauges(
                gauges,
                running.metrics.labels,
                running.dispatcher.workers,
                running.trigger.status().partitions,
            )
        return generate_latest(self._metrics.registry)
