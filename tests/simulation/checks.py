"""What must be so at every start and commit. It knows what was produced and done, and asks no product."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from fake_worker import FakeProcess
from messages import Messages, OnTheirWay
from shape import record_key
from taken_back import TakenBack

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy, Then
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches

# What is on its way when something changes may still arrive: longer than any wire takes, there and back.
GRACE_SECONDS = 0.1
# What is on its way when a partition leaves is waited for as long at least.
CONFIRM_SECONDS = 0.3


class ViolationError(AssertionError):
    """A promise was broken."""


@dataclass(slots=True, eq=False)
class Delivery:
    """One partition in one assignment."""

    key: PartitionKey
    start: Checkpoint
    attempts: dict[int, int]
    holder: Any
    """The replica."""
    plan: PlannedBatches | None = None
    """What it has to repeat, batch by batch, as it was: what is left of that."""
    revoked_at: float = float("inf")
    is_over: bool = False
    handled: dict[int, FakeProcess] = field(default_factory=dict)
    """Well, in this assignment, by whom; an ack may still be missing."""
    settled: set[int] = field(default_factory=set)
    """By returning, in this assignment."""
    handled_at: dict[int, float] = field(default_factory=dict)
    acked_at: dict[int, float] = field(default_factory=dict)
    """Explicitly, in this assignment, so that it must have been accepted."""
    written_at: dict[int, float] = field(default_factory=dict)
    """When the last message of those was confirmed that have produced some."""
    failed: Counter[int] = field(default_factory=Counter)
    """What has been said of records handled one by one."""
    low: int = 0
    """All below have ended."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a handler: by record or range, what was delivered."""

    process: FakeProcess
    parts: list[tuple[Delivery, Sequence[int]]] = field(default_factory=list)
    is_open: bool = True
    outcomes: Sequence[str] = ()
    turns: list[Hashable] = field(default_factory=list)
    """What else must not run meanwhile."""
    seq: int = -1
    """Where several run at once."""


class History:
    """`produced` by partition: the offsets that hold a record, ascending. It grows."""

    def __init__(
        self, policy: DeliveryPolicy, produced: Mapping[PartitionKey, list[int]], now: Callable[[], float]
    ) -> None:
        self.policy = policy
        self.starts = 0
        self.violations: list[str] = []
        self.told: list[tuple[float, str, PartitionKey, object]] = []
        """All that has happened, for people: when, what, where, and more about it."""
        self.commits: dict[PartitionKey, Checkpoint] = {}
        self.deliveries: dict[int, Delivery] = {}
        self.done: dict[PartitionKey, set[int]] = defaultdict(set)
        self.acked: dict[PartitionKey, dict[int, float]] = defaultdict(dict)
        """When; perhaps in vain."""
        self.given_up: dict[PartitionKey, set[int]] = defaultdict(set)
        self.failures: Counter[tuple[PartitionKey, int]] = Counter()
        """At most so many deliveries have failed, whoever counts."""
        self.ended_sessions: set[str] = set()
        self.is_text_whole = True
        """Commits have place for all that is to be said."""
        self.retried: set[tuple[PartitionKey, int]] = set()
        """By an operator's hand."""
        self._hurried: set[tuple[PartitionKey, int]] = set()  # by a death, before their count was safe
        self.messages = Messages()
        self.taken_back = TakenBack(GRACE_SECONDS)
        self._on_their_way = OnTheirWay()
        self._named_at: dict[tuple[PartitionKey, int], float] = {}  # when it was acked last, by name
        self._produced = produced
        self._now = now
        self._running: dict[Hashable, Call] = {}
        self._calls: dict[FakeProcess, list[Call]] = defaultdict(list)  # the last ones
        self._covered: dict[PartitionKey, int] = defaultdict(int)  # by commits, and looked at
        self._moved_back: set[PartitionKey] = set()  # by a late commit, and not mended yet

    def offsets(self, key: PartitionKey, first: int, end: int) -> Sequence[int]:
        """Those of `[first, end)` that hold a record."""
        produced = self._produced[key]
        return produced[bisect_left(produced, first) : bisect_left(produced, end)]

    # ---- calls of handlers

    def on_start(self, process: FakeProcess, events: Sequence[Any], *, is_lease_over: bool) -> Call:
        """A handler is called with these."""
        call = Call(process)
        self.starts += len(events)
        for event in events:
            delivery = self.deliveries[event._partition.lane_id]
            about = (event.first_offset, event.offset + 1, event.attempt, process)
            self._tell("starts: first, end, attempt", delivery.key, about)
            at = f"{delivery.key} offset {event.first_offset}"
            self._require(not is_lease_over, at, "starts after its lease")
            turn = self._turn(delivery.key, event.first_offset)
            self._require(self._running.get(turn, call) is call, at, "starts while what it follows runs")
            self._check_start(delivery, event, call, at)
            self._begin_anew(delivery, range(event.first_offset, event.offset + 1))
            self._running[turn] = call
            call.turns.append(turn)
            call.parts.append((delivery, range(event.first_offset, event.offset + 1)))
        calls = self._calls[process]
        recent = 4 * self.policy.max_concurrency
        calls[:] = [*(it for it in calls[:-recent] if it.is_open), *calls[-recent:], call]
        if self.policy.batch is not None:
            self._check_plans(call)
        return call

    def _begin_anew(self, delivery: Delivery, offsets: Sequence[int]) -> None:
        """What became of it before says nothing of this call."""
        first = offsets[0]
        self.taken_back.forget(delivery.key, offsets)
        if self._on_their_way.has(delivery.key, first):  # nobody knows what becomes of those
            if not self.policy.exactly_once:  # else they were dropped, and are no outcome of anything
                self.taken_back.unwritten[delivery.key].update(offsets)
            self.taken_back.perhaps_unwritten[delivery.key].update(offsets)
        self._on_their_way.drop(delivery.key, first)
        self.messages.on_start(delivery.key, first)
        self.done[delivery.key].difference_update(offsets)
        acked, due = self.acked[delivery.key], self._now() - GRACE_SECONDS
        for offset in offsets:
            delivery.handled.pop(offset, None)
            delivery.handled_at.pop(offset, None)
            if acked.get(offset, due) < due:  # in vain, or by an owner that has left
                del acked[offset]
        delivery.low = min(delivery.low, first)

    def _check_start(self, delivery: Delivery, event: Any, call: Call, at: str) -> None:
        key, now, require = delivery.key, self._now(), self._require
        self._count_late(delivery, range(event.first_offset, event.offset + 1))
        require(not delivery.is_over, at, "starts after its assignment")
        require(now <= delivery.revoked_at + GRACE_SECONDS, at, "starts long after the revoke")
        for offset in self.offsets(key, event.first_offset, event.offset + 1):
            handler = delivery.handled.get(offset)
            require(handler is None or handler.is_dead, at, f"starts again, {offset} of it went well")
            if delivery.acked_at.get(offset, now) + GRACE_SECONDS < now:
                self.violate(f"{at} starts, and {offset} of it was acked")
            require(not _covers(delivery.start, offset), at, f"starts, and {offset} of it was committed")
        batched = {offset for part, offsets in call.parts if part is delivery for offset in offsets}
        for offset in self._open_below(delivery, event.first_offset):
            require(offset in batched, at, f"starts before {offset}")
        self._check_attempt(delivery, event.first_offset, event.attempt, at)

    def _check_plans(self, call: Call) -> None:
        """What a batch holds is committed before it starts, and comes again as it was after a crash."""
        for delivery in {part for part, _ in call.parts}:
            key = delivery.key
            offsets = [offset for part, span in call.parts if part is delivery for offset in span]
            at = f"{key} offsets {offsets[0]} to {offsets[-1]}"
            plan = self.commits[key].plan
            batch = plan.batch_at(offsets[0]) if plan is not None else None
            is_before = plan is not None and bool(plan.session) and offsets[-1] < plan.first
            is_planned = (batch is not None and offsets[-1] < batch[1]) or is_before or not self.is_text_whole
            is_planned = is_planned or key in self._moved_back  # it was, and soon is again
            self._require(is_planned, at, f"start, and the plan that is committed is {plan}")
            is_told = self.is_text_whole and key not in self._moved_back
            if plan is not None and batch is not None and is_told:
                session = call.process.spark_session_id
                self._require(plan.session == session, at, f"start in session {session}, planned as {plan}")
            old = delivery.plan and delivery.plan.above(offsets[0])  # nothing is left of those before
            while old is not None and offsets[-1] >= old.first and not self._left(delivery, old):
                old = delivery.plan = old.above(old.end)  # all of it is acked: nobody has to repeat it
            if old is not None and offsets[-1] >= old.first:
                delivery.plan = old.above(old.end)
                is_alone = old.session in {"", call.process.spark_session_id} | self.ended_sessions
                self._require(is_alone, at, "start before the old session was ended")
                finished = self.acked[key].keys() | self.given_up[key]
                is_same = self._left(delivery, old) == set(self._produced_in(key, offsets)) - finished
                self._require(is_same, at, f"start, and were planned as {old}")

    def _left(self, delivery: Delivery, old: PlannedBatches) -> set[int]:
        """Of its first batch, what nobody has finished."""
        key = delivery.key
        offsets = {it for it in self.offsets(key, old.first, old.end) if not _covers(delivery.start, it)}
        return offsets - self.acked[key].keys() - self.given_up[key]

    def _produced_in(self, key: PartitionKey, offsets: Sequence[int]) -> Iterator[int]:
        produced = set(self.offsets(key, offsets[0], offsets[-1] + 1))
        return (offset for offset in offsets if offset in produced)

    def _open_below(self, delivery: Delivery, end: int) -> Iterator[int]:
        key, turn = delivery.key, self._turn(delivery.key, end)
        if self.policy.ordering != "partition":
            delivery.low = 0  # below it others may be open
        for offset in self.offsets(key, max(delivery.low, delivery.start.offset), end):
            if self._turn(key, offset) == turn and not (
                offset in delivery.handled
                or offset in self.acked[key]
                or offset in self.given_up[key]
                or self.taken_back.has(key, offset)
                or offset in self.taken_back.unwritten[key]  # it waits its backoff, and others go on
                or _covers(delivery.start, offset)
            ):
                yield offset
                return
            delivery.low = offset + 1

    def _turn(self, key: PartitionKey, offset: int) -> Hashable:
        """Records that have the same one follow each other."""
        if self.policy.ordering == "partition":
            return key
        name = record_key(offset) if self.policy.ordering == "key" else None
        return key, offset if name is None else name

    def _committed_failures(self, key: PartitionKey, offset: int) -> int:
        spans = self.commits[key].attempts
        return next((failures for first, end, failures in spans if first <= offset < end), 0)

    def _check_attempt(self, delivery: Delivery, offset: int, attempt: int, at: str) -> None:
        it, carried = (delivery.key, offset), delivery.attempts.get(offset, 0)
        self._require(attempt <= 1 + self.failures[it], at, f"is at attempt {attempt}, too high")
        is_hurried = it in self._hurried or it in self.retried
        is_told = self.is_text_whole and delivery.key not in self._moved_back
        if delivery.failed[offset] > 0 and is_told and not is_hurried:
            committed = self._committed_failures(delivery.key, offset)
            self._require(committed >= attempt - 1, at, f"is at attempt {attempt}, committed are {committed}")
        if self.policy.batch is not None:
            return
        self._require(
            attempt > delivery.failed[offset] + carried or it in self.retried,
            at,
            f"is at attempt {attempt}, too low",
        )
        most = self.policy.failure.max_attempts
        is_extra = carried >= most or it in self.retried
        self._require(not most or attempt <= most or is_extra, at, f"is delivered at attempt {attempt}")

    def on_end(self, call: Call, outcomes: Sequence[str]) -> None:
        """Of each event: `ok`, `unacked` or `failed`."""
        if not call.is_open:
            return
        self._close(call)
        if self.policy.exactly_once and "failed" in outcomes:  # a batch fails as a whole
            outcomes = ["failed"] * len(outcomes)
        call.outcomes = outcomes
        if "failed" not in outcomes:
            for delivery, offsets in call.parts:
                self.messages.on_good(delivery.key, offsets[0])
        for (delivery, offsets), outcome in zip(call.parts, outcomes, strict=True):
            self._tell("ends", delivery.key, (offsets, outcome))
            if outcome == "failed":
                self._on_failure(delivery, offsets)
                delivery.failed[offsets[0]] += 1
            else:
                is_done = outcome == "ok" and self.policy.ack_mode is not AckMode.EXPLICIT_ONLY
                self._on_success(delivery, offsets, call.process, is_done=is_done)

    def _on_success(
        self, delivery: Delivery, offsets: Sequence[int], process: FakeProcess, *, is_done: bool
    ) -> None:
        key, first = delivery.key, offsets[0]
        if not self.taken_back.is_refused(key, first):
            if first in self.taken_back.unwritten[key] and self._is_crossed(key, first):
                self.acked[key].update(dict.fromkeys(offsets, self._now()))  # perhaps, once it was handed out
            self.taken_back.unwritten[key].difference_update(offsets)
        if self.taken_back.has(key, first):  # meanwhile
            if is_done and not self.taken_back.is_sure(key, first):
                self.done[key].update(offsets)
            return
        if is_done:
            delivery.failed.pop(first, None)
            delivery.attempts.pop(first, None)
        if delivery.is_over:
            return
        delivery.handled |= dict.fromkeys(offsets, process)
        if self.policy.ack_deadline_seconds is not None:
            delivery.handled_at |= dict.fromkeys(offsets, self._now())
        if is_done:
            self.done[key].update(offsets)
            delivery.settled.update(offsets)

    def on_death(
        self, process: FakeProcess, *, is_in_a_record: bool, unsaid: AbstractSet[int] | None
    ) -> None:
        """It ends what runs there; and undoes what it had no time to say: `unsaid`, where several run."""
        for delivery in self.deliveries.values():
            handled = () if delivery.is_over else delivery.handled.items()
            left = {at for at, by in handled if by is process and self._on_their_way.has(delivery.key, at)}
            self.taken_back.perhaps_unwritten[delivery.key] |= left
        self._hurried.update(self.taken_back.said_by(process))
        calls = self._calls.pop(process, [])
        if unsaid is None:
            started = [call for call in calls[-1:] if call.is_open or is_in_a_record]
        else:
            started = [call for call in calls if call.is_open or call.seq in unsaid]
        for call in started:
            if call.is_open:
                self._close(call)
            else:
                self._undo(call)
            for delivery, offsets in call.parts:
                self._tell("dies", delivery.key, (offsets, process))
                self._on_failure(delivery, offsets)

    def _undo(self, call: Call) -> None:
        for (delivery, offsets), outcome in zip(call.parts, call.outcomes, strict=True):
            if outcome == "failed":
                delivery.failed[offsets[0]] -= 1
            for offset in offsets:
                delivery.handled.pop(offset, None)
                delivery.acked_at.pop(offset, None)  # it may have counted only once this had gone well
            self.taken_back.perhaps_unwritten[delivery.key].update(offsets)
            if outcome == "ok":
                self.done[delivery.key].difference_update(offsets)
                delivery.settled.difference_update(offsets)

    def _close(self, call: Call) -> None:
        call.is_open = False
        for turn in call.turns:
            self._running.pop(turn, None)

    def _on_failure(self, delivery: Delivery, offsets: Sequence[int]) -> None:
        if self._on_their_way.has(delivery.key, offsets[0]):
            self.taken_back.perhaps_unwritten[delivery.key].update(offsets)
        self._on_their_way.drop(delivery.key, offsets[0])
        self.taken_back.forget(delivery.key, offsets)
        self._count(delivery, offsets)

    def _count(self, delivery: Delivery, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self.failures[delivery.key, offset] += 1

    def _is_late(self, delivery: Delivery, offset: int) -> bool:
        """It may be past ackDeadline."""
        seconds, since = self.policy.ack_deadline_seconds, delivery.handled_at.get(offset)
        return seconds is not None and since is not None and self._now() >= since + seconds

    def failures_of(self, key: PartitionKey, offset: int) -> int:
        """At most so many, with one that is only counted once it comes again: nobody has acked it in time."""
        owner = self.owner(key)
        is_late = owner is not None and self._is_late(owner, offset) and offset not in self.acked[key]
        return self.failures[key, offset] + is_late

    def _count_late(self, delivery: Delivery, offsets: Iterable[int]) -> None:
        for offset in offsets:
            if self._is_late(delivery, offset):
                self._count(delivery, [offset])
                for by_offset in (delivery.handled_at, delivery.handled):
                    by_offset.pop(offset, None)

    def on_given_up(self, lane_id: int, offset: int, how: Then) -> None:
        """It is a dead letter, of which whoever wrote it may not have heard; or it is skipped."""
        delivery, failure = self.deliveries[lane_id], self.policy.failure
        self._count_late(delivery, [offset])
        failures = self.failures[delivery.key, offset]
        self._tell("is given up", delivery.key, (offset, how))
        is_due = failure.then == how and failure.is_spent(failures)
        at = f"{delivery.key} offset {offset}"
        self._require(is_due, at, f"is given up ({how}), at most {failures} deliveries have failed")
        self.given_up[delivery.key].add(offset)
        self.taken_back.unwritten[delivery.key].discard(offset)

    # ---- acks

    def on_ack(  # what is acked, by whom
        self, process: FakeProcess, key: PartitionKey, first: int, offset: int, end: int, *, is_through: bool
    ) -> None:
        """`explicit_ack` of `offset`, of a range from `first` on, said True. `end`: known of the log then."""
        owner, now = self.owner(key), self._now()
        self._tell("is acked: first, last, through", key, (first, offset, is_through))
        from_offset = 0 if is_through or self.policy.is_cumulative else first
        offsets = self.offsets(key, from_offset, offset + 1)
        acks = self.acked[key]
        left_open = self.taken_back.spanned(key, from_offset, first, now, process) - acks.keys()
        # Some may be produced while the ack is on its way.
        acks |= dict.fromkeys(range(max(from_offset, self._covered[key]), offset + 1), now)
        unwritten = self.taken_back.unwritten[key].intersection(offsets)
        running = {it for part in self._all_running() if part[0].key == key for it in part[1]}
        for open_offset in left_open | (unwritten - running):
            acks.pop(open_offset, None)
        self._named_at[key, first] = now
        for acked in offsets:
            self._on_their_way.on_acked(key, acked, process, now - GRACE_SECONDS)
        if owner is not None and owner.revoked_at > now and offset < end and not self.policy.is_ranges:
            perhaps_unwritten = unwritten | self.taken_back.perhaps_unwritten[key]
            for acked in offsets:
                has_failed = self.taken_back.has(key, acked) or self._is_late(owner, acked)
                has_failed = has_failed or acked in perhaps_unwritten
                if not has_failed and (acked >= first or not self.failures[key, acked]):
                    owner.acked_at.setdefault(acked, now)

    def _is_crossed(self, key: PartitionKey, first: int) -> bool:
        """An ack that names it may be on its way, or may have been in vain."""
        return self._named_at.get((key, first), 0) > self._now() - GRACE_SECONDS

    def _forget_acks(self, key: PartitionKey, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self.acked[key].pop(offset, None)

    def on_nack(self, process: FakeProcess, delivery: Delivery, offsets: Sequence[int]) -> None:
        """`explicit_nack`, by whoever has handled these or is in them, said True."""
        key, first, now = delivery.key, offsets[0], self._now()
        self._tell("is nacked", key, offsets)
        again = self.owner(key) if delivery.is_over else None
        is_of_before = again is not None and again.holder is delivery.holder
        if again is not None and is_of_before:  # it is back: a nack names the record, in whichever delivery
            delivery = again
        self._count(delivery, offsets)
        if first in self.given_up[key]:
            rest = [offset for offset in offsets if delivery.handled.get(offset) is process]
            self._take_back(delivery, rest, process, is_sure=False)  # of a range that came again in parts
            return
        is_acked = first in self.acked[key]
        is_crossed = self._is_crossed(key, first)
        if is_acked and delivery.acked_at.get(first, now) < now - GRACE_SECONDS:
            return  # else the two may cross on their way, or the ack was in vain
        is_running = any(it is delivery and first == its[0] for it, its in self._parts_in(process))
        if is_running or is_of_before or delivery.handled.get(first) is process:
            is_here = not delivery.is_over and delivery.revoked_at > now
            is_said = first in self.done[key]  # or not yet
            is_late = any(self._may_be_late(delivery, offset) for offset in offsets)
            is_sure = is_here and not (is_acked or is_crossed or is_said or is_late or is_of_before)
            self._take_back(delivery, offsets, process, is_sure=is_sure)

    def _parts_in(self, process: FakeProcess) -> Iterator[tuple[Delivery, Sequence[int]]]:
        return (part for call in self._calls.get(process, ()) if call.is_open for part in call.parts)

    def _all_running(self) -> Iterator[tuple[Delivery, Sequence[int]]]:
        return (part for process in self._calls for part in self._parts_in(process))

    def _may_be_late(self, delivery: Delivery, offset: int) -> bool:
        return self.policy.ack_deadline_seconds is not None and offset in delivery.handled_at

    def _take_back(
        self, delivery: Delivery, offsets: Sequence[int], process: FakeProcess | None, *, is_sure: bool
    ) -> None:
        """It is open again: for its policy, and for no ack that only spans it."""
        for offset in offsets:
            for by_offset in (delivery.handled, delivery.handled_at, delivery.acked_at):
                by_offset.pop(offset, None)
            delivery.settled.discard(offset)
            if not delivery.is_over:
                self.taken_back.add(delivery.key, offset, self._now(), process, is_sure=is_sure)

    def owner(self, key: PartitionKey) -> Delivery | None:
        """Where the partition is delivered now."""
        found = (it for it in self.deliveries.values() if it.key == key and not it.is_over)
        return next(found, None)

    # ---- assignments and commits

    def on_begin(self, lane_id: int, delivery: Delivery) -> None:
        """An assignment starts."""
        self._tell("begins", delivery.key, delivery.start)
        other = self.owner(delivery.key)
        self._require(other is None, str(delivery.key), "is delivered twice")
        self.deliveries[lane_id] = delivery

    def on_left(self, delivery: Delivery, *, is_clean: bool) -> None:
        """Nothing of it runs, and where that is clean, all that was done in it is committed."""
        if delivery.is_over:
            return
        running = [it for call in self._running.values() for it, _ in call.parts if it is delivery]
        self._require(not running, str(delivery.key), "left with a handler in it")
        self._tell("has left", delivery.key, "cleanly" if is_clean else "")
        delivery.is_over = True
        self.taken_back.forget_all(delivery.key)
        self._count_late(delivery, list(delivery.handled_at))
        commit = self.commits.get(delivery.key, Checkpoint(0))
        unwritten = {offset for offset in self._on_their_way.leave(delivery) if not _covers(commit, offset)}
        self.done[delivery.key] -= unwritten  # it comes again
        self.taken_back.perhaps_unwritten[delivery.key] |= unwritten
        self._forget_acks(delivery.key, unwritten)
        due = delivery.revoked_at
        self.taken_back.perhaps_unwritten[delivery.key].update(
            offset for offset, when in delivery.written_at.items() if when > due
        )
        if not is_clean or self.policy.ack_window_size or delivery.key in self._moved_back:
            return
        due = self._now() - GRACE_SECONDS
        acked = {offset for offset, when in delivery.acked_at.items() if when < due}
        due = delivery.revoked_at + CONFIRM_SECONDS
        late = {offset for offset, when in delivery.written_at.items() if when > due}
        settled = (acked | delivery.settled) - unwritten - late
        missing = [offset for offset in settled if not _covers(commit, offset)]
        self._require(not missing, str(delivery.key), f"left, and its commit has not {missing}: {commit}")

    def check_commit_of(self, lane_id: int) -> None:
        """Somebody wants to commit what is so in this one."""
        delivery = self.deliveries.get(lane_id)
        if delivery is not None:
            self._require(not delivery.is_over, str(delivery.key), "is committed by who has it no more")

    def on_commit(self, key: PartitionKey, checkpoint: Checkpoint) -> None:
        """The broker has taken it."""
        self._tell("is committed", key, checkpoint)
        last = self.commits.get(key, Checkpoint(0))
        self._require(checkpoint.offset >= last.offset, str(key), "its commit moves back")
        spans = [(self._covered[key], checkpoint.offset), *checkpoint.acked]
        for first, end in spans:
            for offset in self.offsets(key, first, end):
                if not self.is_finished(key, offset):
                    self.violate(f"{key} is committed with {offset} unfinished{self._why(key, offset)}")
                if self.policy.exactly_once:
                    wrong = self.messages.wrong_with(
                        key,
                        offset,
                        is_acked=offset in self.acked[key],
                        is_given_up=offset in self.given_up[key],
                    )
                    self._require(not wrong, str(key), wrong)
                    continue
                is_confirmed = offset in self.given_up[key] or not self._on_their_way.has(key, offset)
                self._require(is_confirmed, str(key), f"is committed with messages of {offset} on their way")
        self._covered[key] = checkpoint.offset
        self.commits[key] = checkpoint
        self._moved_back.discard(key)

    def on_late_commit(self, key: PartitionKey, checkpoint: Checkpoint) -> None:
        """The broker has taken one whose sender had given it up: it may move back, and has to be mended."""
        self._tell("is committed late", key, checkpoint)
        self.commits[key] = checkpoint
        self._moved_back.add(key)

    def on_message(self, call: Call, key: PartitionKey, first: int, value: bytes) -> None:
        """A handler that is in what begins there has produced it: it belongs to all that the call is in."""
        self._tell("produces", key, (first, value))
        is_surely_of = [its[0] not in self.acked[it.key] for it, its in call.parts]
        self._on_their_way.add(value, call.parts, is_surely_of, call.process, self._now())
        self.messages.on_made(key, first, value)

    def on_confirmed(self, value: bytes) -> None:
        """It is written."""
        for delivery, offsets, _ in self._on_their_way.end(value):
            delivery.written_at |= dict.fromkeys(offsets, self._now())

    def check_refused(self, value: bytes, refused: AbstractSet[bytes]) -> None:
        """Somebody is told that it can't be written; these can't."""
        if value not in refused:
            self.violate(f"message {value!r} is said to be refused, and is not")

    def on_refused(self, value: bytes) -> None:
        """It is written nowhere, for good: what it belongs to has failed, whatever has settled that."""
        for delivery, offsets, is_last in self._on_their_way.end(value):
            key, first = delivery.key, offsets[0]
            self._tell("has a message refused", key, (first, value, is_last))
            self._count(delivery, offsets)
            self.messages.on_refused(key, first, value)
            is_crossed = self._is_crossed(key, first)
            if is_last:
                self._take_back(delivery, offsets, None, is_sure=True)
                self.taken_back.unwritten[key].update(offsets)
                self.done[key].difference_update(offsets)
                if not is_crossed:
                    self._forget_acks(key, offsets)
                continue
            if not delivery.is_over:
                self.taken_back.perhaps_unwritten[key].update(offsets)
            if first in self.acked[key]:  # it may come again
                self._take_back(delivery, offsets, None, is_sure=False)

    def on_written(self, key: PartitionKey, values: Sequence[bytes]) -> None:
        """With a commit."""
        for value in values:
            for delivery, offsets, _ in self._on_their_way.end(value):
                if delivery.is_over:  # while that commit was on its way
                    self.done[delivery.key].update(offsets)
        wrong = self.messages.on_written(values)
        self._require(not wrong, str(key), wrong)

    def _why(self, key: PartitionKey, offset: int) -> str:
        """What may have led to that, for people."""
        lives = (it for it, acked in self.acked.items() if offset in acked and it != key)
        before = [it for it in lives if it.partition == key.partition]
        by = self.taken_back.by(key, offset)
        return f", {by}" if by else f", acked was that of {before[-1]}" if before else ""

    def is_finished(self, key: PartitionKey, offset: int) -> bool:
        """Somebody has said that it is."""
        return offset in self.done[key] or offset in self.acked[key] or offset in self.given_up[key]

    def uncommitted(self, key: PartitionKey) -> list[int]:
        """What the last commit doesn't cover."""
        commit = self.commits.get(key, Checkpoint(0))
        return [offset for offset in self._produced[key] if not _covers(commit, offset)]

    def _tell(self, what: str, key: PartitionKey, about: object) -> None:
        self.told.append((self._now(), what, key, about))

    def _require(self, is_so: bool, where: str, what: str) -> None:
        if not is_so:
            self.violate(f"{where} {what}")

    def violate(self, what: str) -> None:
        """Kept, because whoever hears of it may take it for a failure of the handler."""
        self.violations.append(f"{self._now():.3f} s: {what}")
        raise ViolationError(what)


def _covers(checkpoint: Checkpoint, offset: int) -> bool:
    return offset < checkpoint.offset or any(first <= offset < end for first, end in checkpoint.acked)
