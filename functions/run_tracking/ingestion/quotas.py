"""How much one run may have of what is listed as a whole: sequences, tags, artifacts."""

from collections.abc import Hashable
from dataclasses import dataclass, field


class OverQuotaError(Exception):
    """The run has as much as it may. One line; the message has no effect."""


@dataclass(slots=True)
class Quota:
    """Of one kind. `there` is what the run has."""

    most: int
    what: str
    setting: str
    there: set[Hashable] = field(default_factory=set)

    def take(self, name: Hashable) -> None:
        """Raises OverQuotaError for a new one that is too many."""
        if name in self.there:
            return
        if len(self.there) >= self.most:
            raise OverQuotaError(f"the run has {len(self.there)} {self.what}, and no more: {self.setting}")
        self.there.add(name)

    def give_back(self, name: Hashable) -> None:
        """It goes."""
        self.there.discard(name)


@dataclass(slots=True)
class Quotas:
    """Of one run. None where a batch can't come near: then nothing has to be known of what is there."""

    sequences: Quota | None = None
    tags: Quota | None = None
    artifacts: Quota | None = None
