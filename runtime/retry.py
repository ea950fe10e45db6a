"""What happens to a record whose handler failed."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Deliveries in all, and the wait between them, which doubles up to a maximum, with jitter."""

    max_attempts: int = 4
    backoff_seconds: float = 1.0
    max_backoff_seconds: float = 30.0

    def wait_seconds(self, attempt: int) -> float | None:
        """How long to wait after delivery number `attempt` failed; None where it was the last one."""
        if attempt >= self.max_attempts:
            return None
        wait: float = min(self.backoff_seconds * 2 ** (attempt - 1), self.max_backoff_seconds)
        jitter: float = random.uniform(0.8, 1.2)  # noqa: S311  # spreads retries, hides nothing
        return wait * jitter
