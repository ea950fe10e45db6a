"""The contract between a trigger and the runtime, which each kind keeps. docs/triggers.md shows a whole kind.

A kind registers a declaration, a TriggerKind, under the entry point group `headrace.triggers`. That names its
class, which is imported where a trigger is to run; so third parties add kinds in the same way.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.dispatch.interface import Dispatch, Output
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.status import PartitionStatus
from headrace.runtime.settings.declare import Settings

__all__ = [
    "DeliveryPolicy",
    "Dispatch",
    "EmbeddedNeeds",
    "Hurrying",
    "Listening",
    "Output",
    "TakesOutput",
    "Trigger",
    "TriggerStatus",
]

Addresses = tuple[str, ...]


def _nowhere_else(_: Addresses) -> Settings:
    raise AssertionError("settings that need no service have no address")


@dataclass(frozen=True, slots=True)
class EmbeddedNeeds:
    """The service that a trigger's source is part of, if Headrace can start it or an option names it.

    `topics` are made where it is started. `at` gives the settings with its address put in.
    """

    service: Literal["", "kafka", "v3io"] = ""
    topics: tuple[str, ...] = ()
    at: Callable[[Addresses], Settings] = _nowhere_else


@runtime_checkable
class Listening(Protocol):
    """Settings of a trigger that is called over HTTP. A kind's settings have these attributes or not.

    With a delivery that wants replies, its `status` has the address as `url` once it listens: `headrace
    invoke` goes by it.
    """

    @property
    def host(self) -> str:
        """A name or an address; 0.0.0.0 and :: are all of the machine's."""

    @property
    def port(self) -> int:
        """The port; 0 takes a free one, which other functions don't know."""


@runtime_checkable
class Hurrying(Protocol):
    """Settings by which a handler that takes long is killed, though no `eventTimeout` asks for it."""

    def unhurried(self) -> Settings:
        """Return settings with which a handler may stand at a breakpoint for a day."""


@dataclass(frozen=True, slots=True)
class TriggerStatus:
    """A trigger's part of `/api/status` and of the metrics. `about`: its kind's own facts, as JSON types."""

    about: Mapping[str, Any] = field(default_factory=dict)
    partitions: tuple[PartitionStatus, ...] = ()
    buffered_bytes: int | None = None
    """Bytes of its partitions' records that it holds, or may get by open requests."""
    last_commit_seconds: float | None = None
    """Seconds since the last commit that succeeded."""

    def json(self) -> dict[str, Any]:
        """Return its part of /api/status."""
        told = {"bufferedBytes": self.buffered_bytes, "lastCommitSeconds": self.last_commit_seconds}
        rows = [row.json() for row in self.partitions]
        return {**self.about, **{key: it for key, it in told.items() if it is not None}, "partitions": rows}


class TakesOutput(Protocol):
    """The other half of a class whose kind is an OutputKind: `spec.outputs` can name that kind."""

    @staticmethod
    @abstractmethod
    def open_output(settings: Any, client_id: str) -> Output:
        """Return an output of its own. Connects to nothing yet.

        `client_id` names this replica to the source.
        """


class Trigger(Protocol):
    """A source of events. Everything runs on the processor's event loop and must not block it.

    Derive from it, and a type checker says what is missing.
    """

    @staticmethod
    @abstractmethod
    def delivery(settings: Any, fields: TriggerFields) -> DeliveryPolicy:
        """Return how its records are handed out, acked and failed.

        That is `fields.delivery`, with the kind's own settings put in. The processor adds the function's
        limits.
        """

    @staticmethod
    @abstractmethod
    def embedded(settings: Any) -> EmbeddedNeeds:
        """Return the service that it needs, for a run in which Headrace starts that too."""

    def __init__(
        self, spec: TriggerSpec, dispatch: Dispatch, metrics: TriggerMetrics, client_id: str
    ) -> None:
        """Remember; connect to nothing yet. `client_id` names this replica to the source."""

    @abstractmethod
    async def run(self) -> None:
        """Connect and feed `dispatch` until `stop`, which ends this without an error.

        The workers are ready. A source that is away is waited for, visibly. What can't work raises
        HeadraceError.
        """

    @abstractmethod
    async def stop(self, wait_seconds: float) -> None:
        """Give everything back: stop fetching, recall, wait for handlers, commit, leave.

        Handlers get at most `wait_seconds`. Bounded and idempotent, also before `run` has begun. The workers
        are still there and are stopped afterwards.
        """

    @abstractmethod
    def problems(self) -> list[str]:
        """Return why it isn't ready, one line each; empty when records flow."""

    @abstractmethod
    def status(self) -> TriggerStatus:
        """Return what it has and is doing. Only reads."""
