"""The process of an embedded Spark Connect server: started, awaited until it serves, ended."""

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
    """An embedded Spark that did not start, or has ended."""

    exit_code = 3


class SparkServerProcess:
    """A run of the server, from its construction to `end`. It dies with the thread that made it.

    Not a ServerProcess (server_process.py): the Python processes that Spark starts have to end with it.
    """

    def __init__(self, files: ServerFiles, token: str, lock_fd: int) -> None:
        self._files = files
        # It runs in our working folder, so that relative paths in a handler's `write` mean what they say.
        # Its umask is the handlers', whose files it writes; its own folder is private anyway.
        env, umask = files.environment(token), handlers_umask()
        self._process = start_server(
            files.command(), files.output, lock_fd, env=env, umask=umask, user=files.user
        )

    @property
    def pid(self) -> int:
        """The number of the process, and of its group, which has the Python processes that it starts."""
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
            log = last_lines(self._files)
            raise SparkServerError(
                f"embedded Spark is not ready after {_START_SECONDS:g} s: {log}"
            ) from error

    async def until_ended(self) -> int:
        """Wait for the end of the process as an event; its exit code."""
        await until_ended(self._process)
        # The process is gone, and not reaped: its number is still that of the group that its children are in.
        self._kill()
        return self._process.wait()

    async def end(self) -> None:
        """End the server by SIGTERM, a bounded wait and SIGKILL, also where we are cancelled."""
        try:
            if self._process.poll() is None:
                self._process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self.until_ended()
        finally:
            self.kill()

    def kill(self) -> None:
        """End the server at once, if it hasn't ended."""
        self._kill()
        self._process.wait()

    def _kill(self) -> None:
        """Kill the whole group, while the process that leads it still holds its number."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def last_lines(files: ServerFiles) -> str:
    """Return the last lines of the server's log, or the causes in it, in one line, without stack frames."""
    lines: list[str] = []
    for path in (files.output, files.folder / "spark.log"):
        with suppress(OSError):
            lines += _text(path).splitlines()
    telling = [line.strip() for line in lines if line.strip() and not line.startswith(("\t", "WARNING:"))]
    causes = [line for line in telling if line.startswith(("Caused by", "Exception in thread"))]
    return " | ".join((causes or telling)[-3:]) or "it said nothing"


def _text(path: Path) -> str:
    """Return the end of a file's text.

    The folder may be another user's, who may have put a link there to a file of ours, or a FIFO.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        found, folder = os.fstat(file), path.parent.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != folder.st_uid:
            raise PermissionError(path)
        opened.seek(max(0, found.st_size - _LAST_BYTES))
        return opened.read(_LAST_BYTES).decode(errors="replace")


async def _accepts(port: int) -> bool:
    """Whether the server listens, which it does once sessions can be opened, and not before."""
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
