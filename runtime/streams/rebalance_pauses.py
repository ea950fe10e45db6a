"""How long partitions stand in a rebalance."""

import time
from collections.abc import Collection

from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey, describe_partitions


class RebalancePauses:
    """Since when those stand that were given back. What never comes again is forgotten with the next one."""

    def __init__(self) -> None:
        self._left: dict[PartitionKey, float] = {}
        self._is_told = True

    def on_left(self, keys: Collection[PartitionKey], metrics: TriggerMetrics, *, are_all: bool) -> None:
        """Nothing more of these is handed out. Where others stay, these move: that is no stop."""
        if keys:
            metrics.history.note("revoked", describe_partitions(keys))
        if are_all:
            self._is_told = False
            self._left |= dict.fromkeys(keys, time.monotonic())

    def on_begun(
        self, keys: Collection[PartitionKey], left: Collection[PartitionKey], metrics: TriggerMetrics
    ) -> None:
        """These are delivered, and `left` will be. All others are somebody else's."""
        now = time.monotonic()
        if self._left and not self._is_told:
            metrics.rebalance_seconds.observe(now - min(self._left.values()))
        self._is_told = True
        metrics.history.note("assigned", describe_partitions(keys))
        for key in keys:
            if (since := self._left.get(key)) is not None:
                metrics.stop_seconds.observe(now - since)
        self._left = {key: self._left[key] for key in left if key in self._left}
