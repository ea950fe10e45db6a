"""Commits that come late: after later ones, as a connection that was given up may still bring them."""

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress

from group import Group, StaleEpochError

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.offset_store import CommitRefusedError, TextTooLongError

_LAST_DIGITS = {1, 4, 8}
"""Of the seeds with late commits. The others are what they were before, for FIND_A_MUTANT needs them so."""
_MOST_SECONDS = 3.0


def may_be_late(seed: int) -> bool:
    """Whether commits come late in the simulation of this seed."""
    return seed % 10 in _LAST_DIGITS


class LateCommits:
    """What is drawn here is drawn from the same seed, by itself."""

    def __init__(self, group: Group, seed: int) -> None:
        self._group = group
        self._rng = random.Random(f"late {seed}")
        self.count = 0
        """So many have counted."""
        group.takes_earlier_epochs = self._rng.random() < 0.5
        self._loses = self._rng.choice([0.0, 0.05, 0.3])

    @property
    def loses(self) -> bool:
        """Whether a request gets lost on a connection that breaks: it is sent again at once."""
        return self._rng.random() < self._loses

    def lose(
        self,
        holder: object,
        membership: tuple[int | None, int],
        offsets: Mapping[PartitionKey, tuple[int, str]],
    ) -> None:
        """A request that its sender has given up: half of them come all the same."""
        if self._rng.random() < 0.5:
            seconds = self._rng.uniform(0, _MOST_SECONDS)
            asyncio.get_running_loop().call_later(seconds, self._bring, holder, membership, dict(offsets))

    def _bring(
        self,
        holder: object,
        membership: tuple[int | None, int],
        offsets: Mapping[PartitionKey, tuple[int, str]],
    ) -> None:
        with suppress(CommitRefusedError, StaleEpochError, TextTooLongError):
            self._group.commit(holder, membership, offsets, is_late=True)
            self.count += 1
