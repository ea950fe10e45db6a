"""What a trigger is to the runtime: the contract that each kind keeps.

A kind registers a class under the entry point group `headrace.triggers`; the runtime finds it there and never
imports it by name, so third parties add kinds in the same way.
"""

from typing import Any, ClassVar, Protocol

from headrace.runtime.config.function import TriggerSpec
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.metrics import TriggerMetrics


class Trigger(Protocol):
    """A source of records: fetches, enters each record into a ledger, commits what is settled.

    Everything runs on the processor's event loop and must not block it.
    """

    kind: ClassVar[str]
    """The name in `spec.triggers.<name>.kind`."""
    aliases: ClassVar[tuple[str, ...]]
    """Other spellings of `kind`."""
    Settings: ClassVar[type[Any]]
    """The pydantic model of `attributes`. It has `worker_allocation_mode`: pool or static."""

    def __init__(
        self, spec: TriggerSpec, dispatcher: Dispatcher, metrics: TriggerMetrics, client_id: str
    ) -> None:
        """Remember; connect to nothing yet. `client_id` names this replica to the source."""

    async def run(self) -> None:
        """Connect and feed the dispatcher until `stop`, which ends this without an error.

        The workers are ready. A source that is away is waited for, visibly. What can't work raises
        HeadraceError.
        """

    async def stop(self, wait_seconds: float) -> None:
        """Give everything back: stop fetching, recall, wait for handlers, commit, leave.

        Handlers get at most `wait_seconds`.
        Bounded and idempotent. The workers are still there and are stopped afterwards.
        """

    @property
    def problems(self) -> list[str]:
        """Why this trigger isn't ready, one line each; empty when records flow."""

    def status(self) -> dict[str, Any]:
        """For `/api/status`: JSON types only."""
