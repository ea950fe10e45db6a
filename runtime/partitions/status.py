"""The status of a partition, as people see it: how far it is, why it stands, and at which record."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.range_buffer import OffsetRange
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.undecoded import UndecodableError

_MOST_BYTES = 2000
_MOST_HEADERS = 50
_CONTENT = ("key", "body", "headers")


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition now. `worker` is None if any may get its records, `committed` before a commit."""

    topic: str
    partition: int
    state: str
    """The lane's state, in a word or two."""
    is_stuck: bool
    """Whether only somebody's hand helps."""
    committable: int
    """The lowest offset that isn't settled."""
    position: int
    """The offset to fetch next."""
    in_flight: int
    """Records at a worker."""
    unsettled: int
    """Records that were fetched and are not settled."""
    unacked: int
    """Records that were handled and wait for an ack."""
    attempt: int
    """The number of the next delivery of the record to hand out next, from 1."""
    end: int = 0
    """The end of its log, as far as is known: what is fetched, and what its source has said last."""
    lag: int = 0
    """Offsets between the last commit and that end."""
    oldest_open_seconds: float = 0.0
    """How long the commit has been held up by the same record, to a second."""
    oldest_unacked_seconds: float = 0.0
    """How long the first of all unacked records has waited for its ack, to a second."""
    waits_for: str = ""
    """The cause for which the lowest record that isn't committed waits, in a few words; empty if none is."""
    limited_by: str = ""
    """The setting that is reached, if nothing more is handed out before some records are settled."""
    worker: int | None = None
    committed: int | None = None
    """The offset of the last commit."""
    reason: str = ""
    """The text of the handler's last failure, if it is stuck in one: not for everybody's eyes."""
    record: dict[str, Any] | None = None
    """The record that it is stuck at, if any: its content isn't for everybody's eyes either."""

    def json(self) -> dict[str, Any]:
        """Return it for /api/status: the same names in camelCase."""
        return {key: getattr(self, name) for name, key in _KEYS.items()}


def stuck_lane(partition: AssignedPartition) -> PartitionLane | None:
    """Return the lane that only somebody's hand moves, if there is one: of several, the one stuck first."""
    stuck = (lane for lane in partition.lane.parts if lane.why_stuck)
    return min(stuck, key=lambda lane: lane.stuck_order, default=None)


def is_stuck_in_a_record(partition: AssignedPartition) -> bool:
    """Whether it is stuck in a record that was fetched.

    A dead letter that is only being written is no trouble yet.
    """
    return stuck_lane(partition) is not None


def is_stuck(partition: AssignedPartition) -> bool:
    """Whether only somebody's hand, a new assignment or a mended dead-letter topic helps."""
    is_over = partition.lane.state is PartitionState.REVOKED  # its next owner says how it stands there
    return not is_over and (bool(partition.why_cut_off) or is_stuck_in_a_record(partition))


def stuck_at(partition: AssignedPartition) -> int:
    """Return the offset of the record that a stuck partition can't get past."""
    lane = stuck_lane(partition)
    record = lane.ending if lane is not None else None
    return partition.ledger.position if record is None else record.offset


def state_name(partition: AssignedPartition) -> str:
    """Return the state in a word or two."""
    lane = stuck_lane(partition) or partition.lane
    return str((PartitionState.HALTED if partition.why_cut_off else lane.state).value)


def problem(partition: AssignedPartition) -> str:
    """Return, in one line, at which record the partition is stuck, and why; empty if it isn't."""
    if not is_stuck(partition):
        return ""
    lane = stuck_lane(partition)
    why = f": {partition.why_cut_off}" if lane is None else lane.why_stuck
    return f"{partition} is {state_name(partition)} at offset {stuck_at(partition)}{why}"


def open_problem(partition: AssignedPartition) -> str:
    """Return `problem` for everybody's eyes: a handler's error may quote its record, and is left out."""
    return problem(partition).removesuffix(f": {handler_reason(partition)}")


def handler_reason(partition: AssignedPartition) -> str:
    """Return the text of the handler's last failure, if that has halted the partition; otherwise empty."""
    failed = partition.failed.of(stuck_at(partition))
    lane = stuck_lane(partition)
    is_halted = lane is not None and lane.state is PartitionState.HALTED
    return failed.reason_in_one_line if failed is not None and failed.failures and is_halted else ""


def waits_for(partition: AssignedPartition, limited_by: str, committed: int | None) -> str:
    """Return what the lowest record that isn't committed waits for: of all reasons, what has to end first.

    Empty if all that was fetched is committed.
    """
    lane = partition.lane
    waiting = [part for part in lane.parts if part.buffer.next_offset is not None]
    lowest = min(waiting, key=lambda part: part.buffer.next_offset or 0, default=lane)
    is_coming = partition.awaiting_ack.has_orphans or partition.ledger.position < partition.fetched_before
    # In order: while one reason holds, the ones below it make no difference.
    reasons = (
        (bool(partition.why_cut_off), PartitionState.HALTED.value),
        (partition.pending.wait_count > 0, "an output that can't be written to"),
        (lowest.state is not PartitionState.ACTIVE, lowest.state.value),
        (lane.out_count > 0, "its handler"),
        (is_coming, "a fetch of what comes again"),
        (bool(waiting) and bool(limited_by), limited_by),
        (bool(waiting), "a worker"),
        (bool(partition.awaiting_ack), "an ack, or the backoff of what was nacked"),
        (partition.pending.are_on_their_way, "its messages to be written"),
        ((committed or 0) < partition.ledger.committable, "a commit"),
    )
    return next((reason for is_so, reason in reasons if is_so), "")


def status(
    partition: AssignedPartition, *, worker: int | None, committed: int | None, limited_by: str, end: int = 0
) -> PartitionStatus:
    """Return all that is known here, and what its dispatcher, its committer and its source know."""
    offset = partition.lane.next_offset
    lane = stuck_lane(partition) if is_stuck(partition) else None
    end = max(end, partition.ledger.position)
    return PartitionStatus(
        topic=partition.key.topic,
        partition=partition.key.partition,
        state=state_name(partition),
        is_stuck=is_stuck(partition),
        committable=partition.ledger.committable,
        position=partition.ledger.position,
        in_flight=partition.lane.out_count,
        unsettled=partition.unsettled,
        unacked=len(partition.awaiting_ack),
        attempt=1 if offset is None else partition.failed.attempt(offset),
        end=end,
        lag=max(0, end - (partition.ledger.committable if committed is None else committed)),
        oldest_open_seconds=round(partition.oldest_open_seconds, 1),
        oldest_unacked_seconds=round(partition.oldest_unacked_seconds, 1),
        waits_for=waits_for(partition, limited_by, committed),
        limited_by=limited_by,
        worker=worker,
        committed=committed,
        reason=handler_reason(partition),
        record=None if lane is None else stuck_record(partition, lane),
    )


def stuck_record(partition: AssignedPartition, lane: PartitionLane) -> dict[str, Any] | None:
    """Return the record that the lane can't get past, as people are shown it, in JSON types only.

    None if nothing of it is here, as of a range or a chunk that can't be read.
    """
    record = lane.ending
    if record is None or isinstance(record, OffsetRange):
        return None
    failed = partition.failed.of(record.offset)
    try:
        return {
            "offset": record.offset,
            "timestamp": _time(record),
            "failures": failed.failures if failed is not None else 0,
            "bodyBytes": len(record.value or b""),
            "key": _text(record.key),
            "body": _text(record.value),
            "headers": [[name, _text(value)] for name, value in record.headers[:_MOST_HEADERS]],
        }
    except UndecodableError:
        return None


def without_content(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what anybody may see of a record."""
    return None if record is None else {**record, **dict.fromkeys(_CONTENT)}


def _time(record: WireRecord) -> str | None:
    timestamp: int | None = record.timestamp  # the oldest logs have none
    if timestamp is None or timestamp < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp / 1e3, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # producers may write any number
        return f"{timestamp} ms"


def _text(value: bytes | None) -> str | None:
    """Return the beginning of a value, whatever it is."""
    if value is None:
        return None
    text = value[:_MOST_BYTES].decode("utf-8", "backslashreplace")
    return f"{text}... ({len(value)} bytes in all)" if len(value) > _MOST_BYTES else text


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


_KEYS = {found.name: _camel_case(found.name) for found in fields(PartitionStatus)}
