"""What a trigger gets in place of a dispatcher of its own, where it shares another one's workers."""

from typing import Any

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.lane import EventLane


class SharedWorkersDispatch:
    """Keeps interface.Dispatch, for lanes that no partition has: partitions are the host's.

    Its lanes are counted as the guest's, and its failures are its lanes' to report. While the host's lease is
    over, nothing of the guest's starts either: the processes are one lease's.
    """

    def __init__(
        self, host: Dispatcher, policy: DeliveryPolicy, metrics: TriggerMetrics, source: int
    ) -> None:
        """`source` counts the guests of a host, from 1."""
        self.policy = policy
        self._host = host
        self._metrics = metrics
        self._source = source

    def submit(self, lane: EventLane) -> None:
        """As Dispatch."""
        lane.source = self._source
        self._host.submit(lane, self._metrics)

    def __getattr__(self, name: str) -> Any:
        """All else is the host's."""
        return getattr(self._host, name)
