"""Supervisor of several replicas on one machine, each with all functions: `headrace run --replicas N`."""

import asyncio
import contextlib
import json
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from headrace.runtime.admin.routes import NAME
from headrace.runtime.admin.status_source import Action, NotHaltedError
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.errors import BrokerError, HeadraceError, UsageError
from headrace.runtime.log import LOG_TAIL
from headrace.runtime.metrics.exposition import merge_expositions
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.replica import Replica
from headrace.runtime.processor.replica_heartbeat import stop_seconds
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.streams.assignment import STANDS_BY

logger = logging.getLogger(__name__)

_FIRST_RESPAWN_SECONDS = 1.0
_MAX_RESPAWN_SECONDS = 30.0
_MAX_SOCKET_FOLDER = 107 - len("/replica-63.sock")  # Linux allows 107 bytes for the path of a socket
_SILENCE = (503, b'{"problem": "does not answer"}')


class Supervisor:
    """Keeps N replicas running, and replaces a replica that dies. A StatusSource: one merged view of all."""

    def __init__(
        self, functions: Sequence[FunctionSpec], options: RunOptions, spark: SparkLink | None = None
    ) -> None:
        self._functions = functions
        self._spark = spark
        self._options = options
        self._replicas: list[Replica] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._stop_seconds = stop_seconds(functions)
        self._has_been_up = False
        self._scrape: asyncio.Task[bytes] | None = None

    def has_been_up(self) -> bool:
        """Whether a replica has been up: then the functions can be run, and a failure is worth a restart."""
        self._has_been_up |= any(replica.has_been_up for replica in self._replicas)
        return self._has_been_up

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, or a replica finds that a function can't run before any has been up.

        Raises HeadraceError.
        """
        async with AsyncExitStack() as stack:
            self._folder = tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True)
            folder = _fit_for_sockets(Path(stack.enter_context(self._folder)))
            self._replicas = [
                Replica(f"replica-{index}", self._options, folder, self._spark, index)
                for index in range(self._options.replicas)
            ]
            # One task for each replica starts it again whenever it ends.
            keepers = [asyncio.create_task(self._keep(replica, stop)) for replica in self._replicas]
            stopping = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait([*keepers, stopping], return_when=asyncio.FIRST_COMPLETED)
            stop.set()  # so that no keeper starts its replica again
            for replica in self._replicas:
                replica.stop()
                if not replica.has_begun:
                    replica.kill()  # it would notice the stop only once all its modules are imported
            _, late = await asyncio.wait(keepers, timeout=self._stop_seconds)
            if late:  # what they haven't committed is delivered again
                for replica in self._replicas:
                    replica.kill()
                await asyncio.wait(keepers)
            for keeper in done - {stopping}:  # one that has ended by itself: a function can't run
                keeper.result()

    def kill(self) -> None:
        """Kill the replicas, and delete their sockets. Blocks for a moment."""
        for replica in self._replicas:
            replica.kill()
        if self._folder is not None:
            self._folder.cleanup()

    async def _keep(self, replica: Replica, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        failures = 0  # starts in a row that ended before the replica was up
        while not stop.is_set():
            began = loop.time()
            code = await replica.run()
            if stop.is_set():
                return
            has_been_up = self.has_been_up()  # noted now: the replica's next process hasn't been up yet
            if code == FunctionCannotRunError.exit_code and not has_been_up:
                raise FunctionCannotRunError(f"{replica.name} says above why a function can't run")
            # A refused sign-in stays refused for a while, and brokers lock out clients that retry too often.
            has_served = replica.has_been_up and code != BrokerError.exit_code
            if has_served or loop.time() - began > _MAX_RESPAWN_SECONDS:
                failures = 0
            # The exponent is bounded: a float overflows at 2 to the power of 1,024.
            respawn_seconds = min(_FIRST_RESPAWN_SECONDS * 2.0 ** min(failures, 10), _MAX_RESPAWN_SECONDS)
            failures += not has_served
            message = "%s ended with exit code %d; started again in %.0f s"
            logger.error(message, replica.name, code, respawn_seconds)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), respawn_seconds)

    async def _ask_all(self, path: str) -> list[tuple[Replica, bytes | None]]:
        answers = await asyncio.gather(*(replica.get(path) for replica in self._replicas))
        return list(zip(self._replicas, answers, strict=True))

    async def problems(self) -> list[str]:
        """Return the problems of all replicas, each line with the name of its replica.

        A replica that stands by, with no partition for it, is a problem only where all of them do.
        """
        reported = [
            (replica.name, json.loads(answer)["problems"] if answer else ["does not answer"])
            for replica, answer in await self._ask_all("/ready")
        ]
        counts = Counter(line for _, lines in reported for line in lines if line.endswith(STANDS_BY))
        idle = {line for line, count in counts.items() if count < len(reported)}
        return [f"{name}: {line}" for name, lines in reported for line in lines if line not in idle]

    async def status(self) -> dict[str, Any]:
        """Return the functions, and the replicas side by side."""
        replicas = []
        for replica, answer in await self._ask_all("/api/status"):
            if answer:
                replicas += json.loads(answer)["replicas"]
            else:
                replicas.append({"name": replica.name, "problems": ["does not answer"], "triggers": []})
        return {"functions": [function.name for function in self._functions], "replicas": replicas}

    async def recent(self) -> dict[str, Any]:
        """Return the last minutes of the replicas side by side, and of this process's log."""
        found: list[Any] = [{"name": "supervisor", "triggers": [], "log": LOG_TAIL.lines()}]
        for _, answer in await self._ask_all("/api/recent"):
            found += json.loads(answer)["replicas"] if answer else []
        return {"replicas": found}

    async def metrics(self) -> bytes:
        """Return all samples under one heading per metric; the label `replica` tells them apart.

        A scrape that is asked for meanwhile shares the answer: none waits behind another for a silent
        replica.
        """
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.create_task(self._scraped())
        # Whoever gives up waiting must not cancel it for the others.
        return await asyncio.shield(self._scrape)

    async def _scraped(self) -> bytes:
        texts = [answer for _, answer in await self._ask_all("/metrics") if answer]
        return await asyncio.to_thread(merge_expositions, texts)

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Retry or skip in all replicas; return the lines of each, with its name.

        Two triggers may have the partition, in two replicas.
        """
        if not re.fullmatch(NAME, topic):  # in a path it could name another partition, or another action
            return []
        path = f"/api/partitions/{topic}/{partition}/{action}"
        answers = await asyncio.gather(*(replica.post(path) for replica in self._replicas))
        done: list[str] = []
        refused: dict[int, str] = {}
        for replica, answer in zip(self._replicas, answers, strict=True):
            status, body = answer or _SILENCE
            answered = json.loads(body)
            done += [f"{replica.name}: {line}" for line in answered.get("done", ())]
            refused.setdefault(status, f"{replica.name}: {answered.get('problem')}")
        if done:
            return done
        # Not halted here beats not here: some replica has the partition.
        if 409 in refused:
            raise NotHaltedError(refused[409])
        if elsewhere := [text for status, text in refused.items() if status != 404]:
            raise HeadraceError("; ".join(elsewhere))
        return []


def _fit_for_sockets(folder: Path) -> Path:
    if len(bytes(folder)) > _MAX_SOCKET_FOLDER:
        raise UsageError(
            f"the folder for temporary files, {folder.parent}, has too long a name for sockets: "
            "point TMPDIR at one with a shorter name"
        )
    return folder


class FunctionCannotRunError(HeadraceError):
    """A replica ended because of a function's own files, as every other one would."""

    exit_code = 2
