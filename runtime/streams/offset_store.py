"""The store of a group's offsets, which each kind of trigger implements for the committer."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.runtime.errors import HeadraceError
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import Encoded
from headrace.runtime.wire.produce import Outgoing


class CommitRefusedError(HeadraceError):
    """The store didn't take a commit, or nobody knows whether it did. The text says why."""


class TextTooLongError(HeadraceError):
    """The store takes less text beside an offset."""


class OffsetStore(Protocol):
    """A store of offsets, and a text beside each. Called on the processor's loop, one write at a time."""

    max_text_chars: int
    """Characters beside an offset, at most; a store that takes less raises TextTooLongError."""
    max_request_chars: int
    """Characters of all text in one write, at most."""

    @property
    def unanswered_at(self) -> float:
        """When, by time.monotonic, a write was last left without an answer; -inf before one was.

        It may still come, behind later ones, and move what they have said back.
        """

    @property
    def generation(self) -> int | None:
        """The generation of the membership now; None if there is none. A commit belongs to one."""

    def encode(self, key: PartitionKey, checkpoint: Checkpoint, max_chars: int) -> Encoded:
        """Return the text that is kept beside the checkpoint's offset, as far as it fits."""

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """Write offsets and texts under the generation that was asked last; return once they are safe.

        Returned are the partitions that were refused by themselves, with the reason: a topic is gone, say.
        `outgoing`: with exactlyOnce, the messages that are written with the commit of a partition, or not at
        all; their callbacks are told what became of them.
        Raises TextTooLongError or CommitRefusedError if none is safe.
        """
