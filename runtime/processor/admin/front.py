"""What the admin server shows from the beginning, before there is a processor or a supervisor to ask."""

from collections.abc import Sequence
from typing import Any

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.errors import HeadraceError
from headrace.runtime.processor.admin.log_tail import LOG_TAIL
from headrace.runtime.processor.admin.reported import Action, StatusSource


class StartingStatus:
    """Keeps admin.Reported: what `served` says, once it is there."""

    def __init__(self, functions: Sequence[FunctionSpec]) -> None:
        self._names = [function.name for function in functions]
        self.doing = ""
        """What is started now, where it may take long."""
        self.served: StatusSource | None = None

    @property
    def _starting(self) -> str:
        return f"starting: {self.doing}" if self.doing else "starting"

    async def problems(self) -> list[str]:
        """Why it isn't ready."""
        return await self.served.problems() if self.served else [self._starting]

    async def status(self) -> dict[str, Any]:
        """The functions, and no replica yet."""
        return await self.served.status() if self.served else {"functions": self._names, "replicas": []}

    async def recent(self) -> dict[str, Any]:
        """Only the log."""
        if self.served is None:
            return {"replicas": [{"name": "", "triggers": [], "log": LOG_TAIL.lines()}]}
        return await self.served.recent()

    async def metrics(self) -> bytes:
        """None yet."""
        return await self.served.metrics() if self.served else b""

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Raises HeadraceError: nobody has a partition yet."""
        if self.served is None:
            raise HeadraceError(f"{self._starting}: no partition is here yet")
        return await self.served.act(action, topic, partition)
