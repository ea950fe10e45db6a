"""The process of an embedded server: started so that it dies with us, and ended within bounds."""

import asyncio
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.runtime.embedded.java import dying_with_parent
from headrace.runtime.tasks import until_ended
from headrace.runtime.users import OURS, ProcessUser

Process = subprocess.Popen[bytes]


def start_server(  # noqa: PLR0913  # what a process is given
    command: Sequence[str],
    output: Path,
    lock_fd: int,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str],
    umask: int = -1,
    user: ProcessUser = OURS,
) -> Process:
    """Start a server's process, which dies with the thread that starts it, and holds its folder's lock.

    All that it prints goes to `output`. `umask` is for files that others shall have; -1: as ours.
    """
    # The process holds the open file: it is ours only until it has started.
    with output.open("wb") as file:
        return subprocess.Popen(
            dying_with_parent(command),
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal is for the owner, who stops it
            pass_fds=(lock_fd,),  # the folder stays locked until this process has ended, too
            umask=umask,
            user=user.uid,
            group=user.gid,
            extra_groups=user.groups,
        )


class ServerProcess:
    """A run of a server, from its construction to `end`. Its process dies with the thread that made it."""

    def __init__(self, process: Process, stop_seconds: float) -> None:
        self._process = process
        self._stop_seconds = stop_seconds

    @property
    def pid(self) -> int:
        return self._process.pid

    async def until_ended(self) -> None:
        """Wait for the end of the process as an event, on whatever loop runs."""
        await until_ended(self._process)

    async def end(self, how: signal.Signals) -> None:
        """End the process by the signal `how`, a bounded wait, and SIGKILL, also where we are cancelled."""
        try:
            self._process.send_signal(how)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._stop_seconds):
                    await self.until_ended()
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process at once, if it hasn't ended."""
        self._process.kill()
        self._process.wait()
