"""Replicas of the demo: `headrace run` in a process each, as the supervisor runs it, with a log file."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from headrace.runtime.errors import HeadraceError
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.replica import Replica as SupervisedReplica
from headrace.runtime.spark.link import SparkLink

FUNCTION = Path(__file__).parent
_POLL_SECONDS = 0.05
_HANDLED = "nuclio_processor_handled_events_total"


class ReplicaEndedError(HeadraceError):
    """A replica that should run has ended."""


class Replica:
    """One replica. `run` is a task; the process ends when that is cancelled, or with this process."""

    def __init__(self, name: str, bootstrap: str, folder: Path, logs: Path, spark: SparkLink) -> None:
        self.name = name
        self.handled = 0
        self.log = logs / f"{name}.log"
        options = RunOptions(paths=(FUNCTION,), brokers=(bootstrap,))
        self._process = SupervisedReplica(name, options, folder, spark)
        self._is_stopping = False

    async def run(self) -> None:
        """Run the process until `stop`. Raises ReplicaEndedError if it ends earlier, or with an error."""
        with self.log.open("w") as log:
            code = await self._process.run(output=log)
        if code or not self._is_stopping:
            raise ReplicaEndedError(f"{self.name} ended with exit code {code}; {self.log} says why")

    def stop(self) -> None:
        """Ask the process to stop; `run` returns when it has."""
        self._is_stopping = True
        self._process.stop()

    def kill(self) -> None:
        """Kill the process and its workers."""
        self._process.kill()

    async def update(self) -> None:
        """Update `handled` from the replica's metrics, if they can be read."""
        if text := await self._process.get("/metrics"):
            families = text_string_to_metric_families(text.decode())
            samples = [sample for family in families for sample in family.samples]
            done = [s.value for s in samples if s.name == _HANDLED and s.labels["result"] == "success"]
            self.handled = int(sum(done))

    async def until_joined(self) -> None:
        """Wait until the group has given the replica partitions."""
        while True:
            if any(trigger["partitions"] for trigger in await self._triggers()):
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def until_handled(self) -> None:
        """Wait until the replica has handled a record."""
        while not self.handled:
            await asyncio.sleep(_POLL_SECONDS)
            await self.update()

    async def kill_worker(self) -> int:
        """Kill (-9) the first worker that has records in flight; return how many."""
        while True:
            for worker in [worker for trigger in await self._triggers() for worker in trigger["workers"]]:
                if worker["inFlight"]:
                    os.kill(worker["pid"], signal.SIGKILL)
                    return int(worker["inFlight"])
            await asyncio.sleep(_POLL_SECONDS)

    async def _triggers(self) -> list[dict[str, Any]]:
        text = await self._process.get("/api/status")
        status = json.loads(text) if text else {"replicas": []}
        return [trigger for replica in status["replicas"] for trigger in replica["triggers"]]
