"""The starter of a v3io server on loopback: a process that dies with this one. See README.md beside it."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from headrace.runtime.embedded.data_folder import OwnedFolder
from headrace.runtime.embedded.ports import HOST, check_listener, free_port
from headrace.runtime.embedded.server_process import ServerProcess, start_server
from headrace.runtime.errors import BrokerError, UsageError
from headrace.runtime.processes import PASSED_ON, picked
from headrace.runtime.v3io.addresses import V3IO_KEY_VARIABLE, StreamPath, V3ioAccess
from headrace.runtime.v3io.client import V3ioClient, V3ioRefusedError
from headrace.runtime.v3io.streams import create

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.01
_ANSWER_SECONDS = 0.5  # what is silent for longer is no server of ours, or asked once more
_LOG_FILE = "v3io.log"
_MODULE = "headrace.runtime.embedded.v3io"


class V3ioProcess(ServerProcess):
    """A run of the v3io server."""

    def __init__(
        self, folder: Path, port: int, *, lock_fd: int, containers: Sequence[str], access_key: str
    ) -> None:
        self._folder = folder
        self._port = port
        # -P: the working folder is the user's, and may have modules of any name.
        command = [sys.executable, "-P", "-m", _MODULE, "--data-dir", str(folder), "--port", str(port)]
        command += [f"--container={name}" for name in containers]
        process = start_server(command, folder / _LOG_FILE, lock_fd, env=_environment(access_key))
        super().__init__(process, _STOP_SECONDS)

    async def until_ready(self) -> None:
        """Return when the server answers. UsageError, with its last lines, when it does not."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                # Polled: the server prints nothing, and tells nobody that it is ready.
                while not await _answers(self._port):
                    if self._process.poll() is not None:
                        raise UsageError(last_lines(self._folder))
                    await asyncio.sleep(_POLL_SECONDS)
                # Somebody answers: before clients send a key there, it has to be our process that does.
                check_listener(self.pid, self._port)
        except TimeoutError as error:
            log = last_lines(self._folder)
            raise UsageError(f"the v3io server is not ready after {_START_SECONDS:g} s: {log}") from error


def last_lines(folder: Path) -> str:
    """Return the last lines of the log of the server in `folder`, in one line."""
    try:
        lines = (folder / _LOG_FILE).read_text(errors="replace").splitlines()
    except OSError:
        return "no log"
    return " | ".join(line.strip() for line in lines[-3:] if line.strip()) or "it said nothing"


def _environment(access_key: str) -> Mapping[str, str]:
    """Return the server's environment.

    Our own V3IO_ACCESS_KEY is for clients of other web APIs: this server gets the key that it was given.
    """
    own = {V3IO_KEY_VARIABLE: access_key} if access_key else {}
    return picked(os.environ, PASSED_ON) | own


async def _answers(port: int) -> bool:
    """Whether somebody answers HTTP at the port; a refusal will do."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    url = f"http://{HOST}:{port}/bigdata/"
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.head(url):
            return True
    except (aiohttp.ClientError, OSError):
        return False


_RETENTION_HOURS = 24
_IS_THERE = 409


class EmbeddedV3io:
    """A server. `start` may fail, `stop` is idempotent and bounded, `async with` does both.

    `data_dir` None: a temporary folder, deleted by `stop`. Given: kept. `port` 0: a free one. With an
    `access_key`, clients have to show it. `containers` are there besides bigdata, projects and users.

    Call `start` and `restart` from a thread that lives as long as the server shall (the main one): the
    kernel kills the server when that thread ends. Bound to no event loop in between.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        port: int = 0,
        access_key: str = "",
        containers: Sequence[str] = (),
    ) -> None:
        self._folder = OwnedFolder(data_dir.expanduser().absolute() if data_dir else None, "headrace-v3io-")
        self._given_port = port
        self._port = 0
        self._access_key = access_key
        self._containers = containers
        self._process: V3ioProcess | None = None

    @property
    def url(self) -> str:
        """http://host:port; empty while there is none."""
        return f"http://{HOST}:{self._port}" if self._port else ""

    @property
    def pid(self) -> int | None:
        """The server's process, None while there is none."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Return when the server answers. UsageError: the folder or the port can't be used."""
        if self._process is not None:
            return
        try:
            await self._folder.take()
            self._port = self._given_port or free_port()
            await self._launch()
        except OSError as error:
            self.kill()
            raise UsageError(
                f"the v3io server cannot use {error.filename or self._folder.kept or 'its folder'}: "
                f"{error.strerror}; make room or choose another data folder"
            ) from error
        # Cancelled as well: it has served nobody, so there is nothing to wait for.
        except BaseException:
            self.kill()
            raise

    async def stop(self) -> None:
        """End the server: SIGTERM, a bounded wait, SIGKILL. A temporary folder goes with it."""
        await self._halt(signal.SIGTERM)
        await self._folder.release()
        self._port = 0

    def kill(self) -> None:
        """Stop the server without waiting for anything: kill -9. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        self._folder.release_at_once()
        self._port = 0

    async def restart(self, *, kill: bool = False) -> None:
        """Start the same server again, with the same port and data; `kill` ends it by kill -9 first."""
        assert self._folder.path is not None, "restart what was started"
        await self._halt(signal.SIGKILL if kill else signal.SIGTERM)
        await self._launch()

    async def wait(self) -> str:
        """Wait until the server has ended by itself or was stopped; return its last log lines."""
        if self._process is not None:
            await self._process.until_ended()
        return last_lines(self._folder.path) if self._folder.path else "stopped"

    async def create_streams(self, streams: Mapping[str, int]) -> None:
        """Create streams, by path (`container/path`) with their shards; existing ones stay as they are."""
        async with V3ioClient(V3ioAccess(self.url, self._access_key)) as client:
            for path, shard_count in streams.items():
                try:
                    await create(client, StreamPath.parse(path), shard_count, _RETENTION_HOURS)
                except V3ioRefusedError as refused:
                    if refused.status != _IS_THERE:
                        raise BrokerError(f"cannot create the stream {path}: {refused.reason}") from None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _launch(self) -> None:
        assert self._folder.path is not None
        self._process = V3ioProcess(
            self._folder.path,
            self._port,
            lock_fd=self._folder.lock_fd,
            containers=self._containers,
            access_key=self._access_key,
        )
        await self._process.until_ready()

    async def _halt(self, how: signal.Signals) -> None:
        if self._process is not None:
            try:
                await self._process.end(how)
            finally:
                self._process = None
