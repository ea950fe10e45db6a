"""Other processes for workers whose code has changed, between their records."""

import asyncio

from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.workers.handle import WorkerHandle

_WHY = "its code has changed"


class Reloads:
    """Of one dispatcher. Owns no state: a worker that is about to go says so itself."""

    def __init__(self, shared: DispatcherState) -> None:
        self._shared = shared

    async def run(self) -> None:
        """Returns once each worker has another process, however long a record takes."""
        await asyncio.gather(*map(self._reload, self._shared.workers))

    async def _reload(self, worker: WorkerHandle) -> None:
        pid = worker.pid
        worker.retire()
        while worker.in_flight.runs and worker.pid == pid:
            self._shared.news.clear()
            await self._shared.news.wait()
        if worker.pid == pid:
            worker.restart(_WHY)
