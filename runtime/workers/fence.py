"""The fence of a trigger, from its processor's side: a process, started again if it dies."""

import asyncio
import logging
import os
import subprocess
import sys

from headrace.runtime.processes import PASSED_ON, picked
from headrace.runtime.tasks import end_tasks, start_task, until_ended
from headrace.runtime.wire.lease import Lease

logger = logging.getLogger(__name__)

_RESPAWN_SECONDS = 0.5


class Fence:
    """Ends the workers of one trigger when their lease ends, whatever this process and they are doing."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the fence's process, which ends by itself with this one."""
        self._keeper = start_task(self._keep_running(), "the fence")

    async def stop(self) -> None:
        """End the fence's process. Idempotent."""
        if self._keeper is not None:
            await end_tasks([self._keeper])

    async def _keep_running(self) -> None:
        while True:
            try:
                await self._live_once()
                why = "it died"
            except OSError as error:
                why = f"it can't be started: {error.strerror or error}"
            logger.warning("the workers have no fence (%s): for now a handler may outlive its lease", why)
            # Workers look at the lease themselves before each record; only what already runs is without a
            # fence.
            await asyncio.sleep(_RESPAWN_SECONDS)

    async def _live_once(self) -> None:
        process = _spawn(self._lease)
        try:
            await until_ended(process)
        finally:
            # Also if this task is cancelled: no process of ours outlives its owner.
            process.kill()
            process.wait()


def _spawn(lease: Lease) -> "subprocess.Popen[bytes]":
    module, fds = "headrace.runtime.workers.fence_main", (lease.fd, lease.kills.fd)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *map(str, fds), str(os.getpid())],
        env=picked(os.environ, PASSED_ON),
        stdin=subprocess.DEVNULL,
        pass_fds=fds,
        # What stops or freezes the processor's group must not stop its fence.
        process_group=0,
    )
