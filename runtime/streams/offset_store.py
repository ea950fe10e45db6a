"""Where a group's offsets are kept: what a committer asks of the kind of trigger."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.runtime.errors import HeadraceError
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import Encoded
from headrace.runtime.partitions.offsets.pending_produces import Outgoing


class CommitRefusedError(HeadraceError):
    """The store didn't take a commit, or it isn't known whether it did. The text says why."""


class TextTooLongError(HeadraceError):
    """The store takes less text beside an offset."""


class OffsetStore(Protocol):
    """Kept by a kind of trigger. Called on the processor's event loop, one write at a time."""

    max_text_chars: int
    """Beside an offset, at most; a store that takes less says so by TextTooLongError."""
    max_request_chars: int
    """Of all text in one write."""

    @property
    def generation(self) -> int | None:
        """Of the membership as it is now; None where there is none. Commits belong to one."""

    def encode(self, key: PartitionKey, checkpoint: Checkpoint, max_chars: int) -> Encoded:
        """What is kept beside the offset, as far as it fits."""

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """Return once they are safe, under the generation that was asked last; all but those returned.

        Those, with the reason, are refused by themselves: their topic is gone, say. `outgoing`: with
        exactlyOnce, the messages that are written with the commit of a partition, or not at all; what became
        of them is told to them.
        Raises TextTooLongError or CommitRefusedError where none is safe.
        """
