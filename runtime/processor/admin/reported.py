"""What an admin server shows: one processor, or a supervisor with the merged view of several."""

from typing import Any, Literal, Protocol

from headrace.runtime.errors import HeadraceError

Action = Literal["retry", "skip"]


class NotHaltedError(HeadraceError):
    """The partition is here, and its records flow: there is nothing to retry or to skip."""

    exit_code = 5


class StatusSource(Protocol):
    """What the admin server shows: one processor, or a supervisor with the merged view of several."""

    async def problems(self) -> list[str]:
        """Why it isn't ready, one line each; empty when it is."""

    async def status(self) -> dict[str, Any]:
        """The body of /api/status."""

    async def recent(self) -> dict[str, Any]:
        """`replicas`: of each the last minutes of its triggers, and of its log, which may quote records."""

    async def metrics(self) -> bytes:
        """Prometheus text."""

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Deliver a halted record once more, or go on behind it; what was done, one line per trigger.

        Empty where the partition isn't here. Raises NotHaltedError, or another HeadraceError for an outage.
        """
