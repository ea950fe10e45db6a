"""FailedJoins of the consumer group that fail: how many in a row, and what is said of them."""

import logging
from collections.abc import Callable

from aiokafka.errors import KafkaError

logger = logging.getLogger(__name__)


class FailedJoins:
    """Counts in cycles of one try and `retry_max` retries. `internals.watch_joins` calls it.

    A cycle that is spent is an error line, a call of `on_spent` (a metric) and a `problem`; the next one
    follows after the same wait as every try. The problem stands until a join succeeds.
    """

    def __init__(
        self, group: str, retry_max: int, backoff_seconds: float, on_spent: Callable[[], None]
    ) -> None:
        self._group = group
        self._retry_max = retry_max
        self._backoff_seconds = backoff_seconds
        self._on_spent = on_spent
        self._failures = 0
        self.problem = ""

    def failed(self, failures: int, error: KafkaError) -> None:
        """That many joins in a row have failed, the last one with `error`."""
        self._failures = failures
        if failures % (self._retry_max + 1):
            return
        self.problem = f"joining group {self._group} failed {_times(failures)}: {error}"
        logger.error(
            "%s; nothing is delivered until it succeeds, tried again every %g s (rebalanceRetryBackoff)",
            self.problem,
            self._backoff_seconds,
        )
        self._on_spent()

    def joined(self) -> None:
        """This replica is a member."""
        if self.problem:
            logger.info("joined group %s after it failed %s", self._group, _times(self._failures))
        self._failures = 0
        self.problem = ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times in a row"
