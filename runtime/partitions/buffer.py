"""What waits in a lane, whatever it is made of."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from headrace.runtime.partitions.offsets.failed_records import FailedRecords
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.wire.records import WireRecord

Records = Sequence[WireRecord]
Span = tuple[int, int]
"""Offsets `[first, end)`."""


class Buffer(Protocol):
    """Units in order of offset: records, each of one offset, or ranges of offsets in a record's shape."""

    holds_ranges: ClassVar[bool]

    @property
    def count(self) -> int:
        """How many records, or offsets, wait."""

    @property
    def decoded_count(self) -> int:
        """How many of them are records that were decoded here."""

    @property
    def decoded_bytes(self) -> int:
        """About what those take in memory."""

    @property
    def size_bytes(self) -> int:
        """About what they take in memory."""

    @property
    def head(self) -> WireRecord | None:
        """The first one."""

    @property
    def given(self) -> Records:
        """Of ranges, those that were taken last."""

    @property
    def next_offset(self) -> int | None:
        """The lowest that waits."""

    def offsets(self, limit: int) -> list[int]:
        """Of the first ones."""

    def count_below(self, offset: int) -> int:
        """How many lie before `offset`."""

    def span_of_first(self, count: int) -> Span:
        """From the first one to the end of the `count`th. IndexError where fewer wait."""

    def count_together(self, size: int, failed: FailedRecords) -> tuple[int, bool]:
        """How many of the first `size` may go in one batch, and whether no others may go with them."""

    def full_batches(self, size: int, above: int) -> list[Span]:
        """What waits at or above an offset, cut into batches of just `size`: the offsets of each."""

    def append(self, units: Records) -> None:
        """After all others."""

    def append_open(self, units: Records, ledger: Ledger) -> None:
        """After all others, what of them is open."""

    def put_back(self, returned: Sequence[Records], ledger: Ledger) -> None:
        """Before all others, what of them is open."""

    def keep_open(self, ledger: Ledger) -> None:
        """Drop what isn't open any more."""

    def take(self, limit: int, byte_limit: int) -> Records:
        """Remove the first ones: at least one."""

    def take_below(self, end: int) -> list[Records]:
        """Remove those before offset `end`: what follows each other in one sequence together."""

    def clear(self) -> None:
        """Remove all."""

    @staticmethod
    def first_offsets(units: Records) -> Sequence[int]:
        """The first offset that each stands for."""

    @staticmethod
    def spans(units: Records) -> Sequence[Span]:
        """The offsets that they stand for, which follow each other."""
