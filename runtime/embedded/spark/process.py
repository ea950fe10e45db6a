"""The embedded Spark Connect server's process: spawned, awaited until it serves, ended."""

import asyncio
import os
import signal
import stat
from contextlib import suppress
from pathlib import Path

from headrace.runtime.embedded.ports import HOST, check_listener
from headrace.runtime.embedded.server_process import start_server
from headrace.runtime.embedded.spark.command import ServerFiles
from headrace.runtime.errors import HeadraceError
from headrace.runtime.processes import handlers_umask
from headrace.runtime.tasks import until_ended

_START_SECONDS = 180.0  # a cluster may take its time to give executors
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.02
_LAST_BYTES = 1 << 18


class SparkServerError(HeadraceError):
    """The embedded Spark did not start, or ended."""

    exit_code = 3


class SparkServerProcess:
    """One run of the server, from its construction to `end`; dies with the thread that made it."""

    def __init__(self, files: ServerFiles, token: str, lock_fd: int) -> None:
        self._files = files
        # In our working folder, not its own: relative paths in a handler's `write` mean what they say.
        # What a handler has it write is the handler's; its own folder is private anyway.
        env, umask = files.environment(token), handlers_umask()
        self._process = start_server(
            files.command(), files.output, lock_fd, env=env, umask=umask, user=files.user
        )

    @property
    def pid(self) -> int:
        """Also its process group, to which the Python processes that it starts belong."""
        return self._process.pid

    async def until_ready(self, port: int) -> None:
        """Return when a client can connect. SparkServerError, with its last lines, when none ever can."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await _accepts(port):  # polled: it tells nobody that it is ready
                    if self._process.poll() is not None:
                        raise SparkServerError(f"embedded Spark did not start: {last_lines(self._files)}")
                    await asyncio.sleep(_POLL_SECONDS)
                check_listener(self.pid, port)
        except TimeoutError as error:
            said = last_lines(self._files)
            raise SparkServerError(
                f"embedded Spark is not ready after {_START_SECONDS:g} s: {said}"
            ) from error

    async def until_ended(self) -> int:
        """Wait for the end of the process as an event; its exit code."""
        await until_ended(self._process)
        self._kill()
        return self._process.wait()

    async def end(self) -> None:
        """SIGTERM, a bounded wait, SIGKILL; whatever happens to us meanwhile."""
        try:
            if self._process.poll() is None:
                self._process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self.until_ended()
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once, if it hasn't ended."""
        self._kill()
        self._process.wait()

    def _kill(self) -> None:
        """The whole group, while the process that leads it still holds its number."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def last_lines(files: ServerFiles) -> str:
    """What the server said last, in one line and without stack frames."""
    lines: list[str] = []
    for path in (files.output, files.folder / "spark.log"):
        with suppress(OSError):
            lines += _text(path).splitlines()
    telling = [line.strip() for line in lines if line.strip() and not line.startswith(("\t", "WARNING:"))]
    causes = [line for line in telling if line.startswith(("Caused by", "Exception in thread"))]
    return " | ".join((causes or telling)[-3:]) or "it said nothing"


def _text(path: Path) -> str:
    """Another user, whose folder it is in, may have put there something of ours, or what never ends."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        found, folder = os.fstat(file), path.parent.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != folder.st_uid:
            raise PermissionError(path)
        opened.seek(max(0, found.st_size - _LAST_BYTES))
        return opened.read(_LAST_BYTES).decode(errors="replace")


async def _accepts(port: int) -> bool:
    """It listens once sessions can be opened, and not before."""
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
