"""Replica of a function, or of several: triggers, their dispatchers and workers, in one process."""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import generate_latest

from headrace.runtime.admin.status_source import Action, NotHaltedError
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.errors import HeadraceError
from headrace.runtime.log import LOG_TAIL
from headrace.runtime.metrics.gauges import Gauges
from headrace.runtime.metrics.runtime_metrics import MetricRegistry
from headrace.runtime.partitions.status import is_stuck, state_name
from headrace.runtime.processes import keep_freed_memory
from headrace.runtime.processor.handler_code import reload_forever
from headrace.runtime.processor.running_trigger import RunningFunction, RunningTrigger
from headrace.runtime.processor.shared_workers import SharingTrigger
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.tasks import task_group
from headrace.runtime.users import OURS, ProcessUser
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.watchdog import resident_bytes
from headrace.triggers.base import TriggerStatus


def fill_gauges(
    gauges: Gauges, labels: tuple[str, ...], workers: Iterable[WorkerHandle], status: TriggerStatus
) -> None:
    """Fill the gauges of one trigger, whose labels' values are `labels`."""
    for worker in workers:
        of_worker = (*labels, worker.index)
        gauges.ready.labels(*of_worker).set(worker.is_ready)
        gauges.in_flight.labels(*of_worker).set(len(worker.in_flight))
        longest = max((running.seconds for running in worker.running()), default=0.0)
        gauges.running.labels(*of_worker).set(longest)
        gauges.resident.labels(*of_worker).set(resident_bytes(worker.pid) if worker.pid is not None else 0)
    if status.buffered_bytes is not None:
        gauges.buffered.labels(*labels).set(status.buffered_bytes)
    if status.last_commit_seconds is not None:
        gauges.commit_age.labels(*labels).set(status.last_commit_seconds)
    for row in status.partitions:
        keys = (*labels, row.topic, row.partition)
        gauges.unsettled.labels(*keys).set(row.unsettled)
        gauges.unacked.labels(*keys).set(row.unacked)
        gauges.oldest_open.labels(*keys).set(row.oldest_open_seconds)
        gauges.oldest_unacked.labels(*keys).set(row.oldest_unacked_seconds)
        gauges.halted.labels(*keys).set(row.is_stuck)
        gauges.log_end.labels(*keys).set(row.end)
        gauges.lag.labels(*keys).set(row.lag)
        if row.committed is not None:
            gauges.committed.labels(*keys).set(row.committed)


class Processor:
    """Triggers of a replica: start, run and stop. A StatusSource for the admin server."""

    def __init__(  # noqa: PLR0913  # all but two have defaults
        self,
        functions: Sequence[FunctionSpec],
        replica: str,
        sparks: Mapping[str, SparkLink] | None = None,
        on_loaded: Callable[[], None] = lambda: None,
        user: ProcessUser = OURS,
        *,
        reloads: bool = False,
    ) -> None:
        """Functions have different names; `sparks` are links by function, for those that have Spark.

        `on_loaded` is called once all handlers are loaded. Handlers run as `user`. `reloads`: workers are
        replaced when their code changes.
        """
        self._reloads = reloads
        self._on_loaded = on_loaded
        self._functions = [
            RunningFunction(it, replica, (sparks or {}).get(it.name), user) for it in functions
        ]
        self._replica = replica
        self._metrics = MetricRegistry(replica)
        self._scraping = asyncio.Lock()
        self._started = time.time()
        self._has_loaded = False
        self._triggers = [running for function in self._functions for running in self._triggers_of(function)]
        self._owners = [running for running in self._triggers if isinstance(running, RunningTrigger)]
        """Triggers with workers of their own."""

    def _triggers_of(self, running_function: RunningFunction) -> Iterator[RunningTrigger | SharingTrigger]:
        function = running_function.spec
        owners: dict[str, RunningTrigger] = {}
        for spec in function.triggers_by_owner:
            log_labels = {"function": function.name} if len(self._functions) > 1 else {}
            if len(function.triggers) > 1:
                log_labels["trigger"] = spec.name
            # Owners come first in this order, so the owner is there already.
            if (owner := owners.get(function.worker_owner_of(spec).name)) is not None:
                yield SharingTrigger(running_function, owner, spec, self._metrics, log_labels)
                continue
            running = RunningTrigger(running_function, spec, self._metrics, log_labels)
            owners[spec.name] = running
            yield running

    def has_been_up(self) -> bool:
        """Whether all handlers are loaded, and may have run."""
        return self._has_loaded

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, or a trigger can't go on. Raises HeadraceError.

        All partitions are given back when it returns.
        """
        # Two tasks, since a trigger may end by an error before anybody asks for a stop.
        running = asyncio.create_task(self._run(), name="processor")
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        # Each trigger gives its partitions back, whatever happens in the others.
        stops = [asyncio.create_task(trigger.stop(), context=trigger.context) for trigger in self._triggers]
        for task in (running, stopping):
            task.cancel()
        results = await asyncio.gather(running, *stops, return_exceptions=True)
        # Outputs close last: a trigger's last records may still produce to them.
        results += await asyncio.gather(*(it.close() for it in self._functions), return_exceptions=True)
        for failure in results:
            # Not CancelledError, which is no Exception: `running` was cancelled above.
            if isinstance(failure, Exception):
                raise failure

    async def _run(self) -> None:
        for owner in self._owners:
            # In a context of its own: all tasks and log lines below name the trigger.
            await asyncio.create_task(owner.start_workers(), context=owner.context)
        self._has_loaded = True  # handlers may run from now on: a stop gives them time
        keep_freed_memory()  # for batches, which are larger than malloc keeps by itself
        gc.freeze()  # modules stay for good: no collection need look at them
        self._on_loaded()
        async with task_group(HeadraceError) as runs:
            for running in self._triggers:
                runs.create_task(running.run(), context=running.context)
            for function in self._functions if self._reloads else ():
                dispatchers = [it.dispatcher for it in self._owners if it.function is function.spec]
                runs.create_task(reload_forever(function.spec, dispatchers))

    async def problems(self) -> list[str]:
        """Return why a trigger or an output isn't ready, one line each."""
        return [problem for it in (*self._triggers, *self._functions) for problem in it.problems()]

    async def status(self) -> dict[str, Any]:
        """Return the functions, and this replica of them."""
        replica = {
            "name": self._replica,
            "pid": os.getpid(),
            "started": self._started,
            "problems": await self.problems(),
            "triggers": [running.status() for running in self._triggers],
        }
        return {"functions": [function.spec.name for function in self._functions], "replicas": [replica]}

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Retry or skip in each trigger that has the partition. Raises NotHaltedError."""
        found = [
            (running, assigned)
            for running in self._owners
            for assigned in running.dispatcher.partitions.values()
            if assigned.key == (topic, partition)
        ]
        stuck = [(running, assigned) for running, assigned in found if is_stuck(assigned)]
        if found and not stuck:
            raise NotHaltedError(f"{topic}/{partition} is not halted: it is {state_name(found[0][1])}")
        return [running.context.run(running.dispatcher.act, action, assigned) for running, assigned in stuck]

    async def recent(self) -> dict[str, Any]:
        """Return the last minutes of this replica."""
        triggers = [running.recent() for running in self._triggers]
        return {"replicas": [{"name": self._replica, "triggers": triggers, "log": LOG_TAIL.lines()}]}

    async def metrics(self) -> bytes:
        """Return counters as they are, and gauges read now.

        One call waits for another: each fills the gauges anew.
        """
        async with self._scraping:
            self._fill_gauges()
            return await asyncio.to_thread(generate_latest, self._metrics.registry)

    def _fill_gauges(self) -> None:
        gauges = self._metrics.gauges
        gauges.clear()
        # Those that share workers, too: they count, and have no workers and partitions of their own.
        for each in self._triggers:
            each.metrics.flush()
        for running in self._owners:
            fill_gauges(
                gauges,
                running.metrics.labels,
                running.dispatcher.workers,
                running.trigger.status(),
            )
