"""Handled records that nobody acks: told in time, with what may be behind it."""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from headrace.runtime.partitions.partition import AssignedPartition

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 5.0
_CURE = (
    "if an ack of the function means all records up to its own, set explicitAckSemantics: cumulative or call"
    " explicit_ack_through"
)


@dataclass(frozen=True, slots=True)
class _Overtaken:
    """The lowest open record of a partition, since when it has been that below acked ones."""

    offset: int
    since: float


class AckStallMonitor:
    """Looks at a trigger's partitions from time to time. Times are seconds of one clock."""

    def __init__(self, limit_of: Callable[[AssignedPartition], str]) -> None:
        """`limit_of`: what keeps more of a partition from being handed out."""
        self._limit_of = limit_of
        self._overtaken: dict[int, _Overtaken] = {}
        self._full: set[int] = set()
        self._has_told = False

    def look(self, partitions: Mapping[int, AssignedPartition], now: float) -> None:
        """Once. `partitions` by their lanes' ids."""
        self._overtaken = {
            id_: self._since(id_, partition.ledger.committable, now)
            for id_, partition in partitions.items()
            if _is_overtaken(partition)
        }
        self._tell([partitions[id_] for id_ in self._long(now)])
        self._full = {id_ for id_, partition in partitions.items() if self._is_full(id_, partition)}

    def problems(self, partitions: Mapping[int, AssignedPartition], now: float) -> list[str]:
        """Partitions that are full of such records, while later ones were acked."""
        standing = [partitions[id_] for id_ in self._long(now) if id_ in partitions and id_ in self._full]
        return [
            f"{partition} is full of handled records that nobody acks, the first at offset"
            f" {partition.ledger.committable}, though later ones were acked; {_CURE}"
            for partition in standing
        ]

    def _since(self, id_: int, offset: int, now: float) -> _Overtaken:
        known = self._overtaken.get(id_)
        return known if known is not None and known.offset == offset else _Overtaken(offset, now)

    def _long(self, now: float) -> list[int]:
        return [id_ for id_, found in self._overtaken.items() if now - found.since >= _PATIENCE_SECONDS]

    def _tell(self, partitions: Collection[AssignedPartition]) -> None:
        if partitions and not self._has_told:
            self._has_told = True
            partition = next(iter(partitions))
            logger.warning(
                "%s offset %d was handled %.0f s ago or more and not acked, though later ones were: it stays"
                " uncommitted; %s",
                partition,
                partition.ledger.committable,
                _PATIENCE_SECONDS,
                _CURE,
            )

    def _is_full(self, id_: int, partition: AssignedPartition) -> bool:
        """All that it may hold waits for acks."""
        is_full = partition.waits_for_acks
        if is_full and id_ not in self._full:
            logger.warning(
                "%s holds %d unacked records, the first at offset %d; %s",
                partition,
                len(partition.unacked),
                partition.ledger.committable,
                f"later ones were acked: {_CURE}"
                if _is_overtaken(partition)
                else f"it gets no more before some are acked: {self._limit_of(partition)} is reached",
            )
        return is_full


def log_what_stays_open(partitions: Collection[AssignedPartition]) -> None:
    """These leave, and nobody is waited for any more."""
    left = [partition for partition in partitions if partition.unacked]
    if left:
        places = ", ".join(f"{p}: {len(p.unacked)} from offset {p.ledger.committable}" for p in left[:5])
        logger.info(
            "%d handled records stay open, as nobody has acked them, and are delivered again (%s%s)",
            sum(len(partition.unacked) for partition in left),
            places,
            ", ..." if len(left) > 5 else "",
        )


def _is_overtaken(partition: AssignedPartition) -> bool:
    """The lowest open record was handled and not acked, and something above it was acked."""
    ledger = partition.ledger
    is_open = ledger.committable in partition.unacked
    return is_open and ledger.open_count < ledger.position - ledger.committable
