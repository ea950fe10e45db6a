"""Several replicas on one machine, each with all functions: `headrace run --replicas N`."""

import asyncio
import contextlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import aiohttp

from headrace.runtime.admin.routes import NAME
from headrace.runtime.admin.status_source import Action, NotHaltedError
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.errors import BrokerError, HeadraceError, UsageError
from headrace.runtime.log import LOG_TAIL
from headrace.runtime.metrics.exposition import merged
from headrace.runtime.processes import handlers_umask
from headrace.runtime.processor.option_fields import command_line
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.replica_heartbeat import SILENT_SECONDS, ReplicaHeartbeat, stop_seconds
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.streams.assignment import STANDS_BY
from headrace.runtime.tasks import end_tasks, start_task

logger = logging.getLogger(__name__)

_FIRST_RESPAWN_SECONDS = 1.0
_MAX_RESPAWN_SECONDS = 30.0
_ASK_SECONDS, _SCRAPE_SECONDS = 2.0, 4.0
_ACT_SECONDS = 10.0
_MAX_SOCKET_FOLDER = 107 - len("/replica-63.sock")  # a socket's path on Linux
_SILENCE = (503, b'{"problem": "does not answer"}')


class Replica:
    """One processor in a process of its own, with an admin server on a Unix socket."""

    def __init__(
        self,
        name: str,
        options: RunOptions,
        folder: Path,
        spark: SparkLink | None = None,
        index: int | None = None,
    ) -> None:
        self.name = name
        self._index = index
        self.socket_path = folder / f"{name}.sock"
        self._options = options
        self._spark = spark
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline: ReplicaHeartbeat | None = None

    async def run(self, output: IO[str] | None = None) -> int:
        """Start it, its log lines to `output` or where ours go; return its exit code."""
        self._lifeline = lifeline = ReplicaHeartbeat()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(lifeline.replica_fd),
                pass_fds=(lifeline.replica_fd, *self._token_fds()),
                process_group=0,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                umask=handlers_umask(),  # it keeps its own files private by itself
            )
        except OSError as error:
            # The system's refusal says it all.
            logger.error("%s can't be started (%s)", self.name, error.strerror or error)  # noqa: TRY400
            return 1
        finally:
            lifeline.on_started()
        watch = start_task(self._end_if_silent(lifeline, self._process.pid), f"the watch over {self.name}")
        code = await self._process.wait()
        await end_tasks([watch])
        self.stop()
        return code

    async def _end_if_silent(self, lifeline: ReplicaHeartbeat, pid: int) -> None:
        await lifeline.until_silent(pid)
        message = (
            "%s is killed: its event loop has not turned for %d s; what isn't committed is delivered again"
        )
        logger.error(message, self.name, SILENT_SECONDS)
        self.kill()

    def stop(self) -> None:
        """Ask it to stop. Idempotent."""
        if self._lifeline is not None:
            self._lifeline.close()

    @property
    def has_been_up(self) -> bool:
        """Whether the process that it has, or had last, has loaded all handlers."""
        return self._lifeline is not None and self._lifeline.has_been_up

    @property
    def has_begun(self) -> bool:
        """Whether it may have started anything: its admin server comes first."""
        return self.socket_path.exists()

    def kill(self) -> None:
        """At once: it did not stop in time, or doesn't hear yet."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _environment(self) -> dict[str, str]:
        spark = self._spark.environment() if self._spark else {}
        return {**os.environ, **self._options.environment(), **spark}

    def _token_fds(self) -> list[int]:
        return [self._spark.token_fd] if self._spark and self._spark.token_fd >= 0 else []

    def _command(self, parent_fd: int) -> list[str]:
        options = replace(
            self._options,
            replica_name=self.name,
            replica_index=self._index,
            replica_count=self._options.replicas,
            parent_fd=parent_fd,
            admin_socket=self.socket_path,
        )
        return [sys.executable, "-P", "-m", "headrace", "run", *command_line(options)]

    async def get(self, path: str) -> bytes | None:
        """What its admin server says; None where it does not answer, or its event loop doesn't turn."""
        seconds = _SCRAPE_SECONDS if path == "/metrics" else _ASK_SECONDS
        status, body = await self._ask("GET", path, seconds) or (0, None)
        return body if status == 200 or path == "/ready" else None

    async def post(self, path: str) -> tuple[int, bytes] | None:
        """Have its admin server do something: the HTTP status and the body; None as above."""
        return await self._ask("POST", path, _ACT_SECONDS)

    async def _ask(self, method: str, path: str, seconds: float) -> tuple[int, bytes] | None:
        connector = aiohttp.UnixConnector(str(self.socket_path))
        timeout = aiohttp.ClientTimeout(seconds)
        body: dict[str, str] | None = {} if method == "POST" else None
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.request(method, f"http://{self.name}{path}", json=body) as response,
            ):
                return response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None


class Supervisor:
    """Keeps N replicas running; a replica that dies is replaced. Keeps admin.Reported: one merged view."""

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
        """Whether a replica has been: what each of them is given can be run."""
        self._has_been_up |= any(replica.has_been_up for replica in self._replicas)
        return self._has_been_up

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or a replica says that a function can't run before one has been up.

        Raises HeadraceError.
        """
        async with AsyncExitStack() as stack:
            self._folder = tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True)
            folder = _fit_for_sockets(Path(stack.enter_context(self._folder)))
            self._replicas = [
                Replica(f"replica-{index}", self._options, folder, self._spark, index)
                for index in range(self._options.replicas)
            ]
            keepers = [asyncio.create_task(self._keep(replica, stop)) for replica in self._replicas]
            stopping = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait([*keepers, stopping], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            for replica in self._replicas:
                replica.stop()
                if not replica.has_begun:
                    replica.kill()  # it would only learn of the stop once all its modules are there
            _, late = await asyncio.wait(keepers, timeout=self._stop_seconds)
            if late:
                for replica in self._replicas:
                    replica.kill()
                await asyncio.wait(keepers)
            for keeper in done - {stopping}:
                keeper.result()

    def kill(self) -> None:
        """End the replicas at once, and leave nothing of them."""
        for replica in self._replicas:
            replica.kill()
        if self._folder is not None:
            self._folder.cleanup()

    async def _keep(self, replica: Replica, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        failures = 0  # one after another, without its having been up
        while not stop.is_set():
            began = loop.time()
            code = await replica.run()
            if stop.is_set():
                return
            has_been_up = self.has_been_up()  # asked each time: one that starts anew hasn't been
            if code == FunctionCannotRunError.exit_code and not has_been_up:
                raise FunctionCannotRunError(f"{replica.name} says above why a function can't run")
            # A sign-in that is refused stays so for a while, and brokers lock out who asks too often.
            has_served = replica.has_been_up and code != BrokerError.exit_code
            if has_served or loop.time() - began > _MAX_RESPAWN_SECONDS:
                failures = 0
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
        """Of all replicas, each line with its name. One may stand by, but not all of them."""
        told = [
            (replica.name, json.loads(answer)["problems"] if answer else ["does not answer"])
            for replica, answer in await self._ask_all("/ready")
        ]
        counts = Counter(line for _, lines in told for line in lines if line.endswith(STANDS_BY))
        idle = {line for line, count in counts.items() if count < len(told)}
        return [f"{name}: {line}" for name, lines in told for line in lines if line not in idle]

    async def status(self) -> dict[str, Any]:
        """The functions, and the replicas side by side."""
        replicas = []
        for replica, answer in await self._ask_all("/api/status"):
            if answer:
                replicas += json.loads(answer)["replicas"]
            else:
                replicas.append({"name": replica.name, "problems": ["does not answer"], "triggers": []})
        return {"functions": [function.name for function in self._functions], "replicas": replicas}

    async def recent(self) -> dict[str, Any]:
        """The replicas side by side, and what this process has to say of them."""
        found: list[Any] = [{"name": "supervisor", "triggers": [], "log": LOG_TAIL.lines()}]
        for _, answer in await self._ask_all("/api/recent"):
            found += json.loads(answer)["replicas"] if answer else []
        return {"replicas": found}

    async def metrics(self) -> bytes:
        """All samples under one heading per metric; the label `replica` tells them apart.

        Who asks meanwhile gets the same answer: nobody waits behind another for a replica that is silent.
        """
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.create_task(self._scraped())
        return await asyncio.shield(self._scrape)

    async def _scraped(self) -> bytes:
        texts = [answer for _, answer in await self._ask_all("/metrics") if answer]
        return await asyncio.to_thread(merged, texts)

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Of all replicas, each line with its name: two triggers may have the partition in two of them."""
        if not re.fullmatch(NAME, topic):  # in a path it could say what is done, and to which partition
            return []
        path = f"/api/partitions/{topic}/{partition}/{action}"
        answers = await asyncio.gather(*(replica.post(path) for replica in self._replicas))
        done: list[str] = []
        refused: dict[int, str] = {}
        for replica, answer in zip(self._replicas, answers, strict=True):
            status, body = answer or _SILENCE
            said = json.loads(body)
            done += [f"{replica.name}: {line}" for line in said.get("done", ())]
            refused.setdefault(status, f"{replica.name}: {said.get('problem')}")
        if done:
            return done
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
    """A replica ended because of a function's own files, as any other would."""

    exit_code = 2
