"""Replica of a supervised run: its process, and what its admin server answers."""

import asyncio
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO

import aiohttp

from headrace.runtime.processes import handlers_umask
from headrace.runtime.processor.option_fields import command_line
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.replica_heartbeat import SILENT_SECONDS, ReplicaHeartbeat
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.tasks import end_tasks, start_task

logger = logging.getLogger(__name__)

# Below what the supervisor's own admin server waits for an answer: 5 s, and 15 s for an action.
_ASK_SECONDS, _SCRAPE_SECONDS = 2.0, 4.0
_ACT_SECONDS = 10.0


class Replica:
    """Replica as its supervisor sees it: a process, with an admin server on a Unix socket."""

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
        self._heartbeat: ReplicaHeartbeat | None = None

    async def run(self, output: IO[str] | None = None) -> int:
        """Start the process, its log lines to `output` or where ours go; return its exit code."""
        self._heartbeat = heartbeat = ReplicaHeartbeat()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(heartbeat.replica_fd),
                pass_fds=(heartbeat.replica_fd, *self._token_fds()),
                process_group=0,  # Ctrl-C on the terminal is for the supervisor, which stops replicas itself
                stdin=subprocess.DEVNULL,  # several replicas can't share a terminal
                stdout=output,
                stderr=output,
                env=self._environment(),
                umask=handlers_umask(),  # for handlers: the replica makes its own files private
            )
        except OSError as error:
            # The system's own words say it all, without a traceback.
            logger.error("%s can't be started (%s)", self.name, error.strerror or error)  # noqa: TRY400
            return 1
        finally:
            heartbeat.on_started()
        watch = start_task(self._kill_if_silent(heartbeat, self._process.pid), f"the watch over {self.name}")
        code = await self._process.wait()
        await end_tasks([watch])
        self.stop()  # closes our end of the socket
        return code

    async def _kill_if_silent(self, heartbeat: ReplicaHeartbeat, pid: int) -> None:
        await heartbeat.until_silent(pid)
        message = (
            "%s is killed: its event loop has not turned for %d s; what isn't committed is delivered again"
        )
        logger.error(message, self.name, SILENT_SECONDS)
        self.kill()

    def stop(self) -> None:
        """Ask the process to stop. Idempotent."""
        if self._heartbeat is not None:
            self._heartbeat.close()

    @property
    def has_been_up(self) -> bool:
        """Whether its present process, or its last one, has loaded all handlers."""
        return self._heartbeat is not None and self._heartbeat.has_been_up

    @property
    def has_begun(self) -> bool:
        """Whether the process may have started anything: its admin server comes first."""
        return self.socket_path.exists()

    def kill(self) -> None:
        """Kill the process: it did not stop in time, or can't be asked to stop yet."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _environment(self) -> dict[str, str]:
        spark = self._spark.environment() if self._spark else {}
        # By the environment, not by the command line, which everybody on the machine can read.
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
        # -P: no module of the working folder hides one of ours.
        return [sys.executable, "-P", "-m", "headrace", "run", *command_line(options)]

    async def get(self, path: str) -> bytes | None:
        """GET a path of its admin server; None where that doesn't answer, or its event loop doesn't turn."""
        seconds = _SCRAPE_SECONDS if path == "/metrics" else _ASK_SECONDS
        status, body = await self._ask("GET", path, seconds) or (0, None)
        # /ready answers 503 with the problems while the replica isn't ready.
        return body if status == 200 or path == "/ready" else None

    async def post(self, path: str) -> tuple[int, bytes] | None:
        """POST to a path of its admin server; return HTTP status and body, None where nobody answers."""
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
