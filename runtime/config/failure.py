"""What happens to a record whose handler failed: `onFailure`."""

import random
from dataclasses import dataclass
from typing import Literal

Then = Literal["halt", "deadLetter", "skip"]


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """Deliveries in all (0: for ever), the wait between them, and what comes after the last one.

    The wait doubles with each attempt up to a maximum, less up to a fifth of it: jitter.
    """

    max_attempts: int = 4
    backoff_seconds: float = 1.0
    max_backoff_seconds: float = 30.0
    then: Then | Literal["report"] = "halt"
    """report: its lane is told, which is all; for lanes that no partition has."""
    dead_letter_topic: str = ""

    def is_spent(self, attempts: int) -> bool:
        """Whether so many failed deliveries are all that a record gets."""
        return 0 < self.max_attempts <= attempts

    def wait_seconds(self, attempts: int) -> float:
        """How long to wait after so many failed deliveries."""
        doublings = min(attempts - 1, 30)  # more would overflow, and is beyond any maximum
        wait: float = min(self.backoff_seconds * 2**doublings, self.max_backoff_seconds)
        jitter: float = random.uniform(0.8, 1.0)  # noqa: S311  # spreads retries, hides nothing
        return wait * jitter
