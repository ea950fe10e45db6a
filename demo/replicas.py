"""`headrace run` in a process of its own, as its supervisor would run it, its log lines in a file."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from headrace.runtime.errors import HeadraceError
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.supervisor import Replica as SupervisedReplica
from headrace.runtime.spark.link import SparkLink

FUNCTION = Path(__file__).parent
_LOOK_SECONDS = 0.05
_HANDLED = "nuclio_processor_handled_events_total"


class ReplicaEndedError(HeadraceError):
    """A replica that should run does not."""


class Replica:
    """`run` it as a task; it ends when that is cancelled, at the latest with this process."""

    def __init__(self, name: str, bootstrap: str, folder: Path, logs: Path, spark: SparkLink) -> None:
        self.name = name
        self.handled = 0
        self.log = logs / f"{name}.log"
        options = RunOptions(paths=(FUNCTION,), brokers=(bootstrap,))
        self._process = SupervisedReplica(name, options, folder, spark)
        self._is_stopping = False

    async def run(self) -> None:
        """Until `stop`. ReplicaEndedError where it ends before, or badly."""
        with self.log.open("w") as log:
            code = await self._process.run(output=log)
        if code or not self._is_stopping:
            raise ReplicaEndedError(f"{self.name} ended with exit code {code}; {self.log} says why")

    def stop(self) -> None:
        """Ask it to stop: `run` returns when it has."""
        self._is_stopping = True
        self._process.stop()

    def kill(self) -> None:
        """At once, its workers with it."""
        self._process.kill()

    async def look(self) -> None:
        """Read how many records it has handled; what it doesn't tell stays as it was."""
        if text := await self._process.get("/metrics"):
            families = text_string_to_metric_families(text.decode())
            samples = [sample for family in families for sample in family.samples]
            done = [s.value for s in samples if s.name == _HANDLED and s.labels["result"] == "success"]
            self.handled = int(sum(done))

    async def until_joined(self) -> None:
        """Return when the group has given it partitions."""
        while True:
            if any(trigger["partitions"] for trigger in await self._triggers()):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def until_handled(self) -> None:
        """Return when it has handled a record."""
        while not self.handled:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def kill_worker(self) -> int:
        """kill -9 for the first worker that has records in its hands; how many they are."""
        while True:
            for worker in [worker for trigger in await self._triggers() for worker in trigger["workers"]]:
                if worker["inFlight"]:
                    os.kill(worker["pid"], signal.SIGKILL)
                    return int(worker["inFlight"])
            await asyncio.sleep(_LOOK_SECONDS)

    async def _triggers(self) -> list[dict[str, Any]]:
        text = await self._process.get("/api/status")
        status = json.loads(text) if text else {"replicas": []}
        return [trigger for replica in status["replicas"] for trigger in replica["triggers"]]
