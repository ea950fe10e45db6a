"""What Headrace writes into the metadata of a commit, a string that the broker keeps beside the offset.

It belongs to its commit: an offset reset by any tool clears it.
"""

import re
from dataclasses import dataclass

_FORMAT = re.compile(r"headrace/1 n=(\d+)(?: |$)")


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """`first_partition_count`: how many partitions the topic had when the group first came to it.

    A partition from that number on has appeared since, and is read from its beginning whatever initialOffset
    says; one below it that has no commit has only been left alone so far.
    """

    first_partition_count: int

    def encode(self) -> str:
        """As short as can be: brokers limit it to 4,096 bytes by default."""
        return f"headrace/1 n={self.first_partition_count}"


def decode_metadata(text: str | None) -> CommitMetadata | None:
    """None for the metadata of other tools, and of versions to come."""
    found = _FORMAT.match(text or "")
    return CommitMetadata(int(found[1])) if found else None
