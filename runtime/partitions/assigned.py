"""One partition in one assignment: what was fetched of it, what is in flight, what is settled."""

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from itertools import count, filterfalse, islice
from typing import Any

from headrace.runtime.partitions.ack_window import AckWindow
from headrace.runtime.partitions.buffer import RecordBuffer
from headrace.runtime.partitions.checkpoint import Checkpoint, Plan
from headrace.runtime.partitions.chunk import Chunk, ChunkRecord, offsets_of
from headrace.runtime.partitions.failed_records import FailedRecord, FailedRecords
from headrace.runtime.partitions.ledger import Ledger
from headrace.runtime.wire.frames import WireRecord

_ids = count()


class PartitionState(Enum):
    """Why a partition's records may not be handed out. The value is what a status page says."""

    ACTIVE = "active"
    RETURNING = "returning"  # a record failed; those behind it are on their way back
    BACKOFF = "backing off"  # a failed record waits for its next attempt
    WRITING_DEAD_LETTER = "writing a dead letter"  # a failed record has spent its attempts
    HALTED = "halted"  # the same, and nobody said what to do with it
    PLANNING = "planning"  # a batch is handed out once the commit that plans it is done
    REVOKED = "revoked"  # for good: a new assignment is a new object

    @property
    def is_final(self) -> bool:
        """Nothing more comes of this assignment."""
        return self in (PartitionState.HALTED, PartitionState.REVOKED)

    @property
    def waits_for_a_record(self) -> bool:
        """One that failed, and nothing else, holds up the rest."""
        return self in (PartitionState.BACKOFF, PartitionState.WRITING_DEAD_LETTER, PartitionState.HALTED)


class AssignedPartition:
    """Mutated by its dispatcher alone; its trigger fills it and reads what may be committed.

    Records are handed out in offset order, all in flight at one worker at a time. From the moment that some
    are asked to come back, or one has failed, nothing is handed out until the last one in flight is settled
    or back: only then is it known what comes first. What waits to be handed out is open in the ledger.
    """

    __slots__ = (
        "_buffer",
        "_is_alone",
        "_is_only_planned",
        "_is_planned",
        "_planned_deaths",
        "_returned",
        "_window",
        "capacity",
        "epoch",
        "failed_now",
        "failed_records",
        "fetched_at",
        "id",
        "in_flight_count",
        "is_cut_off",
        "is_paused",
        "is_queued",
        "is_recalled",
        "ledger",
        "partition",
        "plan",
        "state",
        "topic",
        "unacked",
        "waiting_since",
        "why_cut_off",
        "why_stuck",
        "worker_index",
    )

    def __init__(
        self, topic: str, partition: int, start: Checkpoint, capacity: int, ack_window_size: int = 0
    ) -> None:
        """Go on from `start`; hold at most `capacity` unsettled records."""
        self.id = next(_ids) % 2**32  # on the wire
        self.topic = topic
        self.partition = partition
        self.ledger = Ledger(start.offset, start.acked)
        self.capacity = capacity
        self.state = PartitionState.ACTIVE
        self.epoch = 0  # rises with each failure; see DESIGN.md, "Wire"
        self.in_flight_count = 0  # records at the worker `worker_index`
        self.worker_index: int | None = None
        self.is_queued = False  # in its allocator's queue
        self.is_recalled = False  # some in flight were asked to come back
        self.is_cut_off = False  # the record at ledger.position can't be read: nothing more is fetched
        self.is_paused = False  # the record in flight takes so long that fetching more is of no use
        self.why_cut_off = ""
        self.why_stuck = ""  # what holds up the head record, for as long as only somebody's hand helps
        self.plan = start.plan
        self.failed_records = FailedRecords(
            {offset: FailedRecord(failures) for offset, failures in start.attempts}
        )
        self.failed_now: list[int] = []  # what failed since something was handed out last
        self.unacked: set[int] = set()  # handled, and not to be settled before somebody acks
        self.waiting_since = 0.0  # on the caller's clock: when the first record to hand out came
        self.fetched_at = 0.0  # on the same clock: when the last one did
        self._buffer: Any = RecordBuffer()  # a subclass has another
        self._returned: list[Sequence[WireRecord]] = []
        self._is_alone = False  # nothing goes behind what is in flight
        self._is_planned = False  # what is in flight is what `plan` says
        self._is_only_planned = False  # the plan names a session of ours, which hasn't begun with it
        self._planned_deaths = 0
        self._window = AckWindow(ack_window_size)

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        """What all assignments of this partition share; sorts by topic, then number."""
        return (self.topic, self.partition)

    # ---- what is so

    @property
    def unsettled(self) -> int:
        """Records that were fetched and count against the capacity: waiting, in flight, or unacked."""
        return (
            0 if self.state is PartitionState.REVOKED and not self.in_flight_count else self.ledger.open_count
        )

    @property
    def waiting(self) -> int:
        """Records that can be handed out."""
        return len(self._buffer)

    @property
    def is_idle(self) -> bool:
        """No record of it is held here, but for those that wait for an ack."""
        return not (self._buffer or self.in_flight_count or self._returned)

    @property
    def is_stuck(self) -> bool:
        """Only somebody's hand, a new assignment or a mended dead-letter topic helps."""
        return self.state is not PartitionState.REVOKED and (self.is_cut_off or self.is_stuck_in_a_record)

    @property
    def is_stuck_in_a_record(self) -> bool:
        """In one that was fetched. A dead letter that is only being written is no trouble yet."""
        return bool(self.why_stuck)

    @property
    def state_name(self) -> str:
        """In a word or two."""
        return PartitionState.HALTED.value if self.is_cut_off else self.state.value

    @property
    def stuck_at(self) -> int:
        """The offset of the record that it can't get past, where it is stuck."""
        offset = self.next_offset
        return offset if self.is_stuck_in_a_record and offset is not None else self.ledger.position

    @property
    def problem(self) -> str:
        """In one line, where it is stuck and why; empty where it isn't."""
        if not self.is_stuck:
            return ""
        why = self.why_stuck or f": {self.why_cut_off}"
        return f"{self} is {self.state_name} at offset {self.stuck_at}{why}"

    @property
    def room(self) -> int:
        """How many records may be fetched now.

        Half the capacity at least, so that fetches come in batches; less only where all that is held waits
        for acks, which may need the rest to come first. The whole of a planned batch always has room.
        """
        if self.is_cut_off or self.is_paused or self.state.is_final:
            return 0
        if self.plan is not None and self.is_plan_incomplete:
            return max(self.plan.end - self.ledger.position, self.capacity // 2)
        room = self.capacity - self.unsettled
        return max(room, 0) if 2 * room >= self.capacity or self.is_idle else 0

    @property
    def has_room(self) -> bool:
        """Whether to fetch."""
        return self.room > 0

    @property
    def waits_for_acks(self) -> bool:
        """Nothing more of it is handed out before somebody acks."""
        return bool(self.unacked) and not self.has_room and self.is_idle

    @property
    def is_deliverable(self) -> bool:
        """Whether the next record may be handed out now. A record in trouble goes alone."""
        if self.state is not PartitionState.ACTIVE or not self._buffer:
            return False
        has_failed = bool(self.failed_records) and self.next_offset in self.failed_records
        return not self.in_flight_count or not (self.is_recalled or self._is_alone or has_failed)

    @property
    def head(self) -> WireRecord | None:
        """The next record to hand out."""
        head: WireRecord | None = self._buffer.head
        return head

    @property
    def next_chunk(self) -> Chunk | None:
        """What the next record to hand out is part of, undecoded."""
        return head.chunk if isinstance(head := self.head, ChunkRecord) else None

    @property
    def next_offset(self) -> int | None:
        """The lowest one to hand out."""
        return None if (head := self.head) is None else head.offset

    @property
    def is_plan_incomplete(self) -> bool:
        """Some of what an earlier owner planned has still to be fetched."""
        return self.plan is not None and self.ledger.position < self.plan.end

    @property
    def has_failed_waiting(self) -> bool:
        """What failed last is still to be handled."""
        return self.is_head_refused or any(offset in self.failed_records for offset in self.failed_now)

    def waiting_offsets(self, limit: int) -> list[int]:
        """Of the first records to hand out."""
        return [record.offset for record in islice(self._buffer, limit)]

    def waiting_below(self, offset: int) -> int:
        """How many of those to hand out lie before `offset`."""
        count: int = self._buffer.count_below(offset)
        return count

    def span_of_first(self, count: int) -> Plan:
        """From the first one to hand out to the end of the `count`th."""
        return Plan(self._buffer.offset_at(0), self._buffer.offset_at(count - 1) + 1)

    def count_together(self, size: int) -> tuple[int, bool]:
        """How many of the first `size` to hand out may go in one batch, and whether they must go alone.

        Records in trouble go apart from the others, and no more of them together than each allows.
        """
        if not self.failed_records:
            return min(size, self.waiting), False
        limits = [self.failed_records.batch_limit(offset) for offset in self.waiting_offsets(size)]
        is_limited = limits[0] is not None
        count, most = 0, size
        for limit in limits:
            most = min(most, size if limit is None else limit)
            if (limit is not None) != is_limited or count >= most:
                break
            count += 1
        return count, is_limited

    @property
    def is_head_refused(self) -> bool:
        """The next record must not be delivered."""
        offset = self.next_offset
        return bool(self.failed_records) and offset is not None and self.failed_records.is_refused(offset)

    def acked_by(self, offset: int) -> int | None:
        """The first offset of what an ack of `offset` names; None where nothing may be acked there."""
        return offset

    @property
    def checkpoint(self) -> Checkpoint:
        """What a commit may say now."""
        offset, acked = self._window.hold_back(self.ledger.committable, self.ledger.settled_spans())
        if acked and acked[0][0] == offset:  # acked before it was fetched
            offset = acked.pop(0)[1]
        if self.failed_records:  # of records that were never fetched: they are gone from the log
            self.failed_records.forget([trouble for trouble in self.failed_records if trouble < offset])
        return Checkpoint(offset, self.failed_records.attempts(), self.plan, tuple(acked))

    # ---- what happens to it

    def on_fetched(self, records: Sequence[WireRecord]) -> None:
        """Records came from the source, in order, after all that came before: ledger first, then buffer."""
        ledger = self.ledger
        is_acked_ahead = ledger.has_ahead
        first, last = records[0].offset, records[-1].offset
        if last - first + 1 == len(records):
            ledger.add(first, last + 1)
        else:  # compaction or control records left holes
            for record in records:
                ledger.add(record.offset, record.offset + 1)
        if is_acked_ahead:
            self._buffer.append_open(records, ledger)
        else:
            self._buffer.append(records)

    def take(self, limit: int, byte_limit: int) -> Sequence[WireRecord]:
        """The next records to hand out, at least one. A record in trouble goes alone."""
        self.plan = None  # an earlier owner handed out batches
        if self.failed_records:
            limit = self._limit_by_failed(limit)
        taken: Sequence[WireRecord] = self._buffer.take(limit, byte_limit)
        self._handed_out(taken)
        return taken

    def _limit_by_failed(self, limit: int) -> int:
        first = self.next_offset
        assert first is not None, "something waits"
        self._is_alone = first in self.failed_records
        if self._is_alone:
            return 1
        nearest = min(filter(first.__lt__, self.failed_records), default=None)
        return limit if nearest is None else min(limit, self.waiting_below(nearest))

    def plan_part(self, part: Plan) -> None:
        """A batch with `part` of it is about to be committed, then handed out."""
        self.state = PartitionState.PLANNING
        # A plan that lies further on is still to be kept.
        if self.plan is None or part.first >= self.plan.end:
            self.plan = part

    @property
    def plan_to_repeat(self) -> Plan | None:
        """The plan that the next record to hand out belongs to."""
        plan, offset = self.plan, self.next_offset
        return plan if plan is not None and offset is not None and offset in plan else None

    def plan_in(self, session: str) -> None:
        """What is planned will run in this Spark session."""
        if (plan := self.plan_to_repeat) is not None:
            self.plan = replace(plan, session=session)
            self._is_only_planned = True

    def take_below(self, end: int) -> list[WireRecord]:
        """The records before offset `end`: this partition's part of a batch."""
        first, taken = self.next_offset, self._pop_below(end)
        self._is_only_planned = False
        self.waiting_since = self.fetched_at
        self._is_alone = True
        self._is_planned = self.plan is not None and first is not None and self.plan.first <= first
        self._handed_out(taken)
        return taken

    def _handed_out(self, records: Sequence[WireRecord]) -> None:
        self.in_flight_count += len(records)
        self.failed_now.clear()

    def on_settled(self, records: Sequence[WireRecord]) -> None:
        """These were in flight, follow each other, and succeeded."""
        for first, end in self.spans_of(records):
            self._settle(first, end)
        if self.failed_records:
            self.failed_records.forget(self.firsts_of(records))
        self._left(len(records))

    def on_handled_unacked(self, records: Sequence[WireRecord]) -> None:
        """These were in flight, went well, and stay open until they are acked."""
        firsts = self.firsts_of(records)
        if any(self.ledger.open_spans(firsts[0], firsts[-1] + 1)):  # else all were acked already
            self.unacked.update(filter(self.ledger.is_open, firsts))
        if self.failed_records:
            self.failed_records.forget(firsts)
        self._left(len(records))

    def on_acked(self, first: int, end: int) -> None:
        """Somebody acked `[first, end)`, wherever those records are now. They are not delivered again."""
        self._settle(first, end)
        if (next_offset := self.next_offset) is not None and next_offset < end:
            self._keep_open()
        self._forget_settled(first, end)

    def on_failed(self, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """They were in flight, and failed in a call with `among` records. `on_returned` is still to come."""
        self.epoch += 1
        if self.state is PartitionState.ACTIVE:
            self.state = PartitionState.RETURNING
        is_open = self.ledger.is_open
        for offset in filter(is_open, self.firsts_of(records)):  # else it was acked
            trouble = self.failed_records.setdefault(offset, FailedRecord())
            trouble.failures += 1
            trouble.reason, trouble.among = reason, among
            self.failed_now.append(offset)
            self.drop_plan()

    def on_suspected(self, records: Sequence[WireRecord]) -> None:
        """A worker died by itself with these started. The second time, each goes alone.

        Once more together first, because what the batch wrote can only be replaced by the same batch.
        """
        self._planned_deaths += 1
        if self.plan is None or self._planned_deaths > 1:
            self.drop_plan()
            for first in self.firsts_of(records):
                self.failed_records.setdefault(first, FailedRecord()).batch_limit = 1

    def refused(self, record: WireRecord, reason: str) -> None:
        """It was fetched and must not be delivered."""
        if self.plan is not None and record.offset in self.plan:
            self.plan = None
        if self.ledger.is_open(record.offset):  # else it is settled already
            self.failed_records[record.offset] = FailedRecord(reason=reason, batch_limit=1, is_refused=True)

    def on_returned(self, records: Sequence[WireRecord]) -> None:
        """These were in flight and are to be handed out again, once nothing is in flight any more."""
        self._returned.append(records)
        self._left(len(records))

    def give_up(self, offset: int) -> None:
        """The record at `offset`, which waits, is settled without having succeeded."""
        self.on_acked(offset, offset + 1)

    def revoke(self) -> None:
        """No more records are handed out, ever; what waits is dropped and stays open in the ledger."""
        self.state = PartitionState.REVOKED
        if self._is_only_planned and self.plan is not None:
            self.plan = replace(self.plan, session="")  # nothing of it runs there, and others may
        self._buffer.clear()

    def drop_plan(self) -> None:
        """What was in flight need not come again as it was. A plan that lies further on stays."""
        if self._is_planned:
            self.plan = None

    # ---- what a subclass does otherwise, because its records are none

    @staticmethod
    def firsts_of(records: Sequence[WireRecord]) -> Sequence[int]:
        """The first offset that each stands for."""
        return offsets_of(records)

    def spans_of(self, records: Sequence[WireRecord]) -> Sequence[tuple[int, int]]:
        """The offsets that these stand for, which follow each other."""
        first, last = records[0].offset, records[-1].offset
        if last - first + 1 == len(records):
            return [(first, last + 1)]
        return [(record.offset, record.offset + 1) for record in records]  # what lies between may be open

    def _end_plan(self) -> None:
        """What was planned has its outcome."""
        self.plan = None

    def _pop_below(self, end: int) -> list[WireRecord]:
        taken: list[WireRecord] = self._buffer.take_below(end)
        return taken

    def _keep_open(self) -> None:
        """Of what waits."""
        self._buffer.keep_open(self.ledger)

    def _put_back(self, returned: Sequence[Sequence[WireRecord]]) -> None:
        """Before what waits; some may have been acked."""
        self._buffer.prepend_open(returned, self.ledger)

    # ---- inside

    def _settle(self, first: int, end: int) -> None:
        ledger = self.ledger
        if size := self._window.size:
            newest_first = reversed(range(max(first, ledger.committable), end))
            newest = list(islice(filterfalse(ledger.is_settled, newest_first), size))
            self._window.on_settled(reversed(newest))
        ledger.settle(first, end)

    def _forget_settled(self, first: int, end: int) -> None:
        if end - first == 1:
            self.unacked.discard(first)
            self.failed_records.pop(first, None)
        else:
            self._forget_unacked(first, end)
            self.failed_records.forget_settled(self.ledger.is_open)

    def _forget_unacked(self, first: int, end: int) -> None:
        if end - first < len(self.unacked):
            self.unacked.difference_update(range(first, end))
        else:
            self.unacked = {offset for offset in self.unacked if not first <= offset < end}

    def _left(self, count: int) -> None:
        self.in_flight_count -= count
        self.is_paused = False
        if self.in_flight_count:
            return
        self.is_recalled = False
        self._is_alone = False
        if not self._returned:
            if self._is_planned:
                self._end_plan()
            self._planned_deaths = 0
        elif self.state is not PartitionState.REVOKED:
            # They came back in several messages, in any order.
            self._put_back(sorted(self._returned, key=lambda records: records[0].offset))
        self._returned.clear()

    def status(self) -> dict[str, Any]:
        """For a status page: JSON types only."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "state": self.state_name,
            "isStuck": self.is_stuck,
            "committable": self.ledger.committable,
            "position": self.ledger.position,
            "inFlight": self.in_flight_count,
            "unsettled": self.unsettled,
            "unacked": len(self.unacked),
            "attempt": 1 if (offset := self.next_offset) is None else self.failed_records.attempt(offset),
        }
