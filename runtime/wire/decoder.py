"""What a trigger's decoder is: it opens chunks, in workers and where a processor has to look into one."""

from collections.abc import Sequence
from typing import Protocol

from headrace.runtime.wire.records import Buffer, WireRecord


class DecodedRecords(Protocol):
    """Of one chunk, in order. Reading raises nothing: UndecodableRecords come where its bytes are none."""

    def read(self, count: int) -> Sequence[WireRecord]:
        """The next ones: fewer than `count` where that is the end."""


class Decode(Protocol):
    """A trigger names it by `module:function`."""

    def __call__(self, data: Buffer, skip: int = 0, /, *, must_live: bool = False) -> DecodedRecords:
        """All that are in a chunk, without the first `skip`.

        `must_live`: what comes is read by a process that may not die of it, so it is looked at first.
        """
