"""The embedded Spark Connect server: started on loopback, and started again when it dies."""

import asyncio
import logging
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.embedded.data_folder import OwnedFolder
from headrace.runtime.embedded.java import find_java
from headrace.runtime.embedded.maven_jars import pyspark_jars
from headrace.runtime.embedded.ports import free_port_of_localhost
from headrace.runtime.embedded.spark.command import ServerFiles
from headrace.runtime.embedded.spark.installed import check_spark_installed, pyspark_version
from headrace.runtime.embedded.spark.jars import EXTRA, spark_jars
from headrace.runtime.embedded.spark.process import SparkServerError, SparkServerProcess, last_lines
from headrace.runtime.embedded.spark.sharing import share_spark
from headrace.runtime.embedded.subprocesses import run_in_thread
from headrace.runtime.errors import UsageError
from headrace.runtime.processes import describe_exit
from headrace.runtime.spark.link import SharedToken, SparkLink
from headrace.runtime.spark.versions import notice_of_java
from headrace.runtime.tasks import end_tasks
from headrace.runtime.users import OURS, ProcessUser

logger = logging.getLogger(__name__)

_RESTART_SECONDS = 1.0
_MAX_RESTART_SECONDS = 30.0
_USUAL_SECONDS = 7


class SparkServer:
    """A server for all workers of some functions. `start` may fail, `stop` is idempotent and bounded.

    A server that dies is started again at the same port, with another token, which its link has then. What
    ran on it has failed by then, and sessions begin anew: `on_restart` tells. Start it from a thread that
    lives as long as it shall (the main one): the kernel kills the server when that thread ends.
    """

    def __init__(
        self,
        functions: Sequence[FunctionSpec],
        on_restart: Callable[[], None] = lambda: None,
        user: ProcessUser = OURS,
    ) -> None:
        """Run it as `user`, since it does what handlers say. ConfigError where the functions disagree."""
        self._user = user
        self._shared = share_spark(functions)
        self._on_restart = on_restart
        self._folder = OwnedFolder(None, "headrace-spark-")
        self._token = SharedToken.create()
        self._port = 0
        self._ipv6_port: socket.socket | None = None
        self._files: ServerFiles | None = None
        self._process: SparkServerProcess | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def link(self) -> SparkLink:
        """The address and token of the server.

        The address is `localhost` literally: with another name a token makes clients ask for TLS.
        """
        return SparkLink(f"sc://localhost:{self._port}", self._token.text, shared=self._token)

    @property
    def pid(self) -> int | None:
        """The server's process, None while there is none."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Return when clients can connect. UsageError: the machine; SparkServerError: Spark."""
        began = time.monotonic()
        try:
            await asyncio.to_thread(check_spark_installed)
            await self._prepare()
            with _progress(self._shared.spec.master):
                await self._launch()
        except OSError as error:
            self.kill()
            raise UsageError(
                f"embedded Spark cannot use {error.filename or 'its folder'}: {error.strerror}; "
                "make room there or point TMPDIR at another folder"
            ) from error
        except BaseException:
            self.kill()  # it has served nobody: there is nothing to wait for
            raise
        logger.info("Spark Connect at %s after %.1f s", self.link.url, time.monotonic() - began)
        self._keeper = asyncio.create_task(self._keep_running(), name="spark-server")

    async def stop(self) -> None:
        """End the server: SIGTERM, a bounded wait, SIGKILL. Its folder goes with it."""
        # First of all: it would start the server again that is ended below.
        if self._keeper is not None:
            await end_tasks([self._keeper])
            self._keeper = None
        await self._end_process()
        self._release_port()
        await self._folder.release()

    def kill(self) -> None:
        """Stop the server without waiting for anything: kill -9. Idempotent."""
        if self._keeper is not None:
            self._keeper.cancel()
        self._token.withdraw()
        if self._process is not None:
            self._process.kill()
            self._process = None
        self._release_port()
        self._folder.release_at_once()

    def _release_port(self) -> None:
        """Release the server's port of ::1."""
        if self._ipv6_port is not None:
            self._ipv6_port.close()
            self._ipv6_port = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _prepare(self) -> None:
        """Prepare all that is needed before the first start."""
        java = await run_in_thread(find_java)
        if notice := notice_of_java(pyspark_version(), java.build):
            logger.warning("%s (from %s)", notice, java.origin)
        more_jars = await run_in_thread(spark_jars, java, self._shared.spec.packages)
        folder = await self._folder.take_for(self._user)
        if self._user.is_another:
            more_jars = await asyncio.to_thread(_copy_jars, more_jars, folder)
        self._port, self._ipv6_port = free_port_of_localhost()
        self._files = ServerFiles(
            java=java,
            spark_jars=pyspark_jars(EXTRA),
            more_jars=more_jars,
            folder=folder,
            shared=self._shared,
            user=self._user,
        )
        # Written before the folder is the user's: from then on it may hold links of the user's making.
        self._files.write(self._port)
        self._folder.give_to_user(self._user)
        await asyncio.to_thread(self._user.check_reach, self._files.read())

    async def _launch(self) -> None:
        assert self._files is not None
        token = secrets.token_urlsafe(32)
        self._process = SparkServerProcess(self._files, token, self._folder.lock_fd)
        await self._process.until_ready(self._port)
        # Not earlier: until the port is known to be our server's, another process may be listening there.
        self._token.publish(token)

    async def _end_process(self) -> None:
        if self._process is not None:
            try:
                await self._process.end()
            finally:
                self._process = None

    async def _keep_running(self) -> None:
        while True:
            assert self._process is not None
            assert self._files is not None
            code = await self._process.until_ended()
            # Workers wait while there is no token: anybody may take the port meanwhile.
            self._token.withdraw()
            logger.error(
                "Spark ended by itself (%s): started again, what ran on it fails and is tried again (%s)",
                describe_exit(code),
                last_lines(self._files),
            )
            # The port stays the same: workers know it by now.
            wait_seconds = _RESTART_SECONDS
            while not await self._try_restart():
                await asyncio.sleep(wait_seconds)
                wait_seconds = min(2 * wait_seconds, _MAX_RESTART_SECONDS)

    async def _try_restart(self) -> bool:
        began = time.monotonic()
        try:
            await self._launch()
        except (SparkServerError, UsageError, OSError) as error:
            await self._end_process()
            logger.error("%s; workers that need Spark wait", error)  # noqa: TRY400  # the line says it all
            return False
        logger.warning("Spark is back at %s after %.1f s", self.link.url, time.monotonic() - began)
        self._on_restart()
        return True


def _copy_jars(jars: Sequence[Path], folder: Path) -> list[Path]:
    """Copy jars into the server's folder: our cache may be where the server's user can't read it."""
    (folder / "jars").mkdir()
    return [Path(shutil.copy(jar, folder / "jars")) for jar in jars]


@contextmanager
def _progress(master: str) -> Iterator[None]:
    """Show a clock to people, or write a line to the log."""
    what = f"starting Spark ({master}, about {_USUAL_SECONDS} s)"
    if not sys.stderr.isatty():
        logger.info(what)
        yield
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as clock:
        clock.add_task(what, total=None)
        yield
