"""The v3io server's process: spawned, awaited until it answers, ended."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp

from headrace.runtime.embedded.ports import HOST, check_listener
from headrace.runtime.embedded.server_process import ServerProcess, start_server
from headrace.runtime.embedded.v3io.web.keys import VARIABLE
from headrace.runtime.environment import PASSED_ON, picked
from headrace.runtime.errors import UsageError

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.01
_ANSWER_SECONDS = 0.5  # what is silent for longer is no server of ours, or asked once more
_LOG_FILE = "v3io.log"
_MODULE = "headrace.runtime.embedded.v3io"


class V3ioProcess(ServerProcess):
    """One run of the v3io server."""

    def __init__(
        self, folder: Path, port: int, *, lock_fd: int, containers: Sequence[str], access_key: str
    ) -> None:
        self._folder = folder
        self._port = port
        command = [sys.executable, "-P", "-m", _MODULE, "--data-dir", str(folder), "--port", str(port)]
        command += [f"--container={name}" for name in containers]
        process = start_server(command, folder / _LOG_FILE, lock_fd, env=_environment(access_key))
        super().__init__(process, _STOP_SECONDS)

    async def until_ready(self) -> None:
        """Return when the server answers. UsageError, with its last lines, when it does not."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await _answers(self._port):  # polled, as the other servers are
                    if self._process.poll() is not None:
                        raise UsageError(last_lines(self._folder))
                    await asyncio.sleep(_POLL_SECONDS)
                check_listener(self.pid, self._port)
        except TimeoutError as error:
            said = last_lines(self._folder)
            raise UsageError(f"the v3io server is not ready after {_START_SECONDS:g} s: {said}") from error


def last_lines(folder: Path) -> str:
    """What the server in `folder` said last, in one line."""
    try:
        lines = (folder / _LOG_FILE).read_text(errors="replace").splitlines()
    except OSError:
        return "no log"
    return " | ".join(line.strip() for line in lines[-3:] if line.strip()) or "it said nothing"


def _environment(access_key: str) -> Mapping[str, str]:
    """Ours of that name is for clients: of the server it would ask for a key that nobody gave it."""
    own = {VARIABLE: access_key} if access_key else {}
    return picked(os.environ, PASSED_ON) | own


async def _answers(port: int) -> bool:
    """Whether somebody there speaks HTTP: a refusal will do."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    url = f"http://{HOST}:{port}/bigdata/"
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.head(url):
            return True
    except (aiohttp.ClientError, OSError):
        return False
