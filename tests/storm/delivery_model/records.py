"""Records come, are handed out, and have outcomes."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import rule
from worker_bench import Record

from headrace.runtime.config.delivery_policy import AckMode
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.records import WireRecord

from .replica import Replica
from .state import MAX_ATTEMPTS, State, numbers


class Records(State):
    """Runs of one partition. Batches have rules of their own for how they begin."""

    @rule(number=numbers, count=st.integers(1, 10), gap=st.integers(0, 2))
    def produce(self, number: int, count: int, gap: int) -> None:
        first = self.group.ends[number] + gap
        self.group.offsets[number] += range(first, first + count)
        self.group.ends[number] = first + count

    @rule(number=numbers)
    def end_a_transaction(self, number: int) -> None:
        self.group.ends[number] += 1

    @rule(number=numbers)
    def fetch(self, number: int) -> None:
        if (replica := self.owner(number)) is None:
            return
        partition = replica.partitions[number]
        position = partition.ledger.position
        waiting = [offset for offset in self.group.offsets[number] if offset >= position]
        if found := waiting[: partition.to_fetch]:
            partition.on_fetched([Record(offset) for offset in found])
        if not waiting and (partition.lane.is_idle or partition.missing_of_plan):
            partition.advance(self.group.ends[number])

    @rule(number=numbers, count=st.integers(1, 6))
    def hand_out(self, number: int, count: int) -> None:
        if self.policy.batch is not None:
            return
        self.begin()
        self.fetch(number)
        if (replica := self.owner(number)) is None or not replica.partitions[number].lane.is_deliverable:
            return
        self.deliver(replica, number, replica.partitions[number].lane.take(count, 1 << 20))

    def busy(self, number: int) -> Replica | None:
        """Who has something of it in flight, if anything can be."""
        replica = self.owner(number)
        if replica is None or not replica.in_flight[number]:
            self.hand_out(number, 2)
            replica = self.owner(number)
        return replica if replica is not None and replica.in_flight[number] else None

    def deliver(self, replica: Replica, number: int, records: Sequence[WireRecord]) -> None:
        """To a worker."""
        for record in records:
            self._check_delivery(replica, number, record.offset)
            replica.in_flight[number].append(Record(record.offset))

    def _check_delivery(self, replica: Replica, number: int, offset: int) -> None:
        it = (number, offset)
        assert it not in self.done or it in self.may_repeat, f"L2: {it} is done, and delivered again"
        assert it not in replica.handled, f"L2: {it} is delivered twice in one assignment"
        flight = {record.offset for record in replica.in_flight[number]}
        for lower in self.group.offsets[number]:
            if lower < offset:
                before = (number, lower)
                is_past = before in self.done | replica.handled or lower in flight
                assert is_past, f"L3: {it} is delivered before {before}"
        attempt = replica.partitions[number].failed.attempt(offset)
        assert attempt <= self.failures.get(it, 0) + 1, "an attempt too many"
        assert attempt > replica.failures.get(it, 0), "an attempt too few"

    @rule(number=numbers, count=st.integers(1, 6), no_ack=st.booleans())
    def finish(self, number: int, count: int, no_ack: bool) -> None:
        if (replica := self.busy(number)) is not None:
            self.finish_in(replica, number, count, no_ack)

    def finish_in(self, replica: Replica, number: int, count: int, no_ack: bool) -> None:
        """The first `count` of what is in flight; of a batch, all of it."""
        flight = replica.in_flight[number]
        count = len(flight) if self.policy.batch else count
        finished, replica.in_flight[number] = flight[:count], flight[count:]
        if not finished:
            return
        partition = replica.partitions[number]
        ids = {(number, record.offset) for record in finished}
        mode = self.policy.ack_mode
        if mode is AckMode.EXPLICIT_ONLY or (mode is AckMode.ENABLE and no_ack):
            partition.lane.on_unacked(finished)
            replica.handled |= ids
        else:
            partition.lane.on_settled(finished)
            self.done |= ids
        self._have_outcome(replica, number, [record.offset for record in finished])

    @rule(number=numbers)
    def fail(self, number: int) -> None:
        """The first record, or a batch as a whole."""
        if (replica := self.busy(number)) is None:
            return
        flight, partition = replica.in_flight[number], replica.partitions[number]
        failed, rest = (flight, []) if self.policy.batch else (flight[:1], flight[1:])
        replica.in_flight[number] = []
        partition.lane.on_failed(failed, "it raised", len(failed))
        still_open = [record.offset for record in failed if record.offset in partition.failed]
        for offset in still_open:
            for counted in (self.failures, replica.failures):
                counted[number, offset] = counted.get((number, offset), 0) + 1
            assert partition.failed[offset].failures <= self.failures[number, offset]
        self._have_outcome(replica, number, [record.offset for record in failed])
        for part in filter(None, (failed, rest)):
            partition.lane.on_returned(part)
        self.after_return(replica, number)
        for offset in still_open:
            if not partition.ledger.is_open(offset):
                self.give_up(number, offset)

    def _have_outcome(self, replica: Replica, number: int, offsets: list[int]) -> None:
        self.forget_part(number, offsets)
        replica.deaths.pop(number, None)

    def forget_part(self, number: int, offsets: list[int]) -> None:
        """What was handed out with these need not come again with them."""
        if not {*offsets}.isdisjoint(self.parts.get(number, [])):
            del self.parts[number]

    @rule(number=numbers, kept=st.integers(0, 3))
    def recall(self, number: int, kept: int) -> None:
        """In two messages, the later records first. With none kept: the worker was killed by the runtime."""
        replica = self.owner(number)
        kept = 0 if self.policy.batch else kept
        if replica is None or not (back := replica.in_flight[number][kept:]):
            return
        partition = replica.partitions[number]
        partition.lane.on_recalled()
        for part in filter(None, (back[1:], back[:1])):
            partition.lane.on_returned(part)
        replica.in_flight[number] = replica.in_flight[number][:kept]

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 4.0, 7.0]))
    def wait(self, seconds: float) -> None:
        """Backoffs end, commits that nobody answers are given up."""
        self.loop.pass_time(seconds)

    @rule(number=numbers, is_skipped=st.booleans())
    def operate(self, number: int, is_skipped: bool) -> None:
        """`headrace partition retry|skip`."""
        replica = self.owner(number)
        if replica is None or replica.partitions[number].lane.state is not PartitionState.HALTED:
            return
        partition = replica.partitions[number]
        offset = partition.lane.buffer.next_offset
        assert offset is not None
        assert self.failures[number, offset] >= MAX_ATTEMPTS, f"{number}/{offset} is halted too early"
        if is_skipped:
            self.done.add((number, offset))
        self.in_loop(lambda: replica.failed.act("skip" if is_skipped else "retry", partition))
