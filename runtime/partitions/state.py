"""The state of a partition's lane: what it is doing, and what it may do next."""

from collections.abc import Mapping
from enum import Enum


class PartitionState(Enum):
    """Why records may not be handed out. The value is what a status page says."""

    ACTIVE = "active"
    RETURNING = "returning"  # a record failed; those behind it are on their way back
    BACKOFF = "backing off"  # a failed record waits for its next attempt
    WRITING_DEAD_LETTER = "writing a dead letter"  # a failed record has spent its attempts
    HALTED = "halted"  # a failed record has spent its attempts, and waits for a person
    PLANNING = "planning"  # a batch is handed out once the commit that plans it is done
    REVOKED = "revoked"  # for good: a new assignment is a new object

    is_final: bool
    """Whether nothing more comes of this assignment by itself."""
    waits_for_a_record: bool
    """Whether a record that failed, and nothing else, holds up the rest."""

    def __init__(self, _: str) -> None:
        # Reckoned once, since each fetch asks for it.
        self.is_final = self.name in {"HALTED", "REVOKED"}
        self.waits_for_a_record = self.name in {"BACKOFF", "WRITING_DEAD_LETTER", "HALTED"}


_S = PartitionState

TRANSITIONS: Mapping[PartitionState, Mapping[PartitionState, str]] = {
    _S.ACTIVE: {
        _S.RETURNING: "a record failed",
        _S.PLANNING: "a batch is about to be committed as a plan",
        _S.WRITING_DEAD_LETTER: "the next record must not be delivered",
        _S.HALTED: "the next record must not be delivered",
        _S.REVOKED: "the partition leaves",
    },
    _S.RETURNING: {
        _S.BACKOFF: "all are back, and attempts are left",
        _S.WRITING_DEAD_LETTER: "all are back, and none are: deadLetter",
        _S.HALTED: "all are back, and none are: halt",
        _S.ACTIVE: "all are back, and none are: skip; or what failed was acked meanwhile",
        _S.REVOKED: "the partition leaves",
    },
    _S.BACKOFF: {
        _S.ACTIVE: "the wait is over, or the record was acked",
        _S.RETURNING: "a record before it, which had gone well, has failed",
        _S.REVOKED: "the partition leaves",
    },
    _S.WRITING_DEAD_LETTER: {
        _S.ACTIVE: "it is written, or the record was acked, or somebody retries or skips it",
        _S.RETURNING: "the same, and a record before it, which had gone well, has failed",
        _S.HALTED: "there is nothing that could be written",
        _S.REVOKED: "the partition leaves",
    },
    _S.HALTED: {
        _S.ACTIVE: "somebody retries or skips the record, or it was acked",
        _S.RETURNING: "a record before it, which had gone well, has failed",
        _S.REVOKED: "the partition leaves",
    },
    _S.PLANNING: {
        _S.ACTIVE: "the plan is committed, or nothing is left of the batch",
        _S.REVOKED: "the partition leaves",
    },
    _S.REVOKED: {},
}
"""Every change of state there is, and what brings it about. `PartitionLane.become` allows no other."""
